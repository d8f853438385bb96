// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IProofVerifier} from "./IProofVerifier.sol";
import {Proofs} from "./Proofs.sol";
import {Proved} from "./Proved.sol";

/// @title A ledger as `Proved`, whose coins can be locked for a delegate that the ledger knows
/// @notice A locked coin is spent by its delegate, which needs no proof of its own, may be a contract, and may be chosen
/// after the spending was proved. After the lock has expired the coin is its owner's again.
///
/// @dev A locked coin has this ledger as the delegate in its commitment. So a proof that spends it is one for this ledger,
/// and the ledger lets it pass in two cases only: as a prepared transition with this ledger as committer, which
/// `transferLocked` alone commits, for the delegate in the record; or with a section that releases an expired lock.
/// A record without such a coin, and such a coin without a record, are worth nothing to anybody.
///
///     lock    = kind u8 | id 32 | presumed delegate 20 | hold: delegate 20, expiresAt u64
///     kind    = 5 hold | 6 release
///
/// *Hold* makes a record of the first output. Its id is zero, as the coin is named by the output. *Release* removes the
/// record of the one input, which is the id. Both presume the delegate zero. A transition with a section makes no calls.
///
/// The id of what `transferLocked` commits belongs to no key: it is the hash of a nonce and the first coin, so that no
/// other coin's owner can use it up and nobody, the owner included, can take a transition from a delegate before its time.
///
///     auth    = length u16 | validUntil u64 | nonce 16 | zeros 48 | per input: n u8, its maker's n coins | proof
///     intent  = keccak(nonce 16 | coin 32)[:16]
contract ProvedLocks is Proved {
    /// @notice There is no such lock, or not any more.
    error LockNotActive(uint256 utxo);

    /// @notice Only its delegate does this to a lock.
    error LockUnauthorized(uint256 utxo, address delegate, address caller);

    /// @notice From then on the owner alone can spend the coin.
    error LockExpired(uint256 utxo, uint256 expiresAt, uint256 time);

    /// @notice What a delegate wants to have done was not committed: the transition would have been skipped for this reason.
    /// @param stateLeaf As in `Skipped`
    /// @param stateOutput As in `Skipped`
    error NotCommitted(SkipReason reason, bytes32 stateLeaf, uint8 stateOutput);

    /// @notice The transition has other inputs or outputs than were named, or none.
    error OtherCoins();

    event LockCreated(uint256 indexed utxo, address indexed delegate, uint64 expiresAt);
    event LockDelegated(
        uint256 indexed utxo, address indexed previousDelegate, address indexed newDelegate, bytes data
    );
    event LockSpent(uint256 indexed utxo, address indexed delegate);
    event LockReleased(uint256 indexed utxo, address indexed delegate);

    uint256 private constant KIND_HOLD = 5;
    uint256 private constant KIND_RELEASE = 6;
    uint256 private constant RELEASE_BYTES = 53;
    uint256 private constant HOLD_BYTES = 81;
    uint256 private constant NONCE_BYTES = 16;

    uint256 private constant RECORDED = 1 << 224;

    /// @dev Of the coins that a delegate has named: the hash of all, and the first. Only while they are spent.
    bytes32 private transient _named;
    uint256 private transient _first;

    /// @dev The coin whose lock the transition at hand releases.
    uint256 private transient _released;

    /// @dev The record of each lock: 1 | expiresAt u64 | delegate 20.
    mapping(uint256 utxo => uint256 head) private _locks;

    /// @param coinIssuer As for `Proved`
    /// @param small As for `Proved`
    /// @param large As for `Proved`
    /// @param mayMintUnbacked As for `Proved`
    constructor(address coinIssuer, IProofVerifier small, IProofVerifier large, bool mayMintUnbacked)
        Proved(coinIssuer, small, large, mayMintUnbacked)
    {}

    // What delegates do.

    /// @notice Pays with locked coins, as their owner has proved. Their delegate does it, before the locks expire.
    /// @param inputs The coins that are spent
    /// @param outputs The coins that are made
    /// @param proof What `commit` takes as `auth`
    /// @param data What `commit` takes as `payload`: this one transition
    function transferLocked(
        uint256[] calldata inputs,
        uint256[] calldata outputs,
        bytes calldata proof,
        bytes calldata data
    ) external whenNotCalling {
        if (inputs.length == 0) revert OtherCoins();
        for (uint256 i = 0; i < inputs.length; ++i) {
            _requireDelegate(inputs[i]);
            delete _locks[inputs[i]];
            emit LockSpent(inputs[i], msg.sender);
        }
        _first = inputs[0];
        _named = _hashOf(inputs, outputs);
        (uint256 committed,) = this.commit(data, 0, proof);
        _named = 0;
        if (committed != 1) revert NotCommitted(SkipReason.None, 0, 0);
    }

    /// @notice Gives locks to another delegate. Their delegate does it, before they expire.
    /// @param utxos The locked coins
    /// @param delegate Who may spend them from now on; zero for nobody
    /// @param data For the log
    function delegateLock(uint256[] calldata utxos, address delegate, bytes calldata data) external whenNotCalling {
        for (uint256 i = 0; i < utxos.length; ++i) {
            uint256 head = _requireDelegate(utxos[i]);
            _locks[utxos[i]] = _headOf(delegate, _expiryIn(head));
            emit LockDelegated(utxos[i], msg.sender, delegate, data);
        }
    }

    // What anybody may know.

    /// @notice Whether there is a lock, expired or not, whose it is, and when it expires.
    /// @param utxo The locked coin
    function locked(uint256 utxo)
        external
        view
        whenNotCalling
        returns (bool isLocked, address delegate, uint64 expiresAt)
    {
        uint256 head = _locks[utxo];
        return (head != 0, _delegateIn(head), uint64(_expiryIn(head)));
    }

    // What transitions do.

    function _lockFlag() internal pure override returns (uint256) {
        return FLAG_LOCK;
    }

    function _lockBytes(uint256 position, uint256 cursor) internal pure override returns (uint256) {
        uint256 kind = _load(cursor) >> 248;
        if (kind == KIND_HOLD) return HOLD_BYTES;
        if (kind != KIND_RELEASE) revert Malformed(position, "lock");
        return RELEASE_BYTES;
    }

    /// @dev What the proof shows of a release is looked at by `_prove`, which follows.
    function _run(Work memory work, uint256 leafAt, uint256 plan, uint256 body, bytes calldata payload)
        internal
        override
        returns (bool, uint256)
    {
        unchecked {
            if ((plan >> 120) & FLAG_LOCK == 0) return super._run(work, leafAt, plan, body, payload);
            uint256 outputs = (plan >> 112) & 0xf;
            uint256 section = body + _bodyBytes(plan);
            uint256 id = _load(section + 1);
            bool isHeld = _load(section) >> 248 == KIND_HOLD;
            bool isRight = (plan >> 120) & (FLAG_CALLS | FLAG_PREPARED) == 0 && _load(section + 33) >> 96 == 0
                && (isHeld ? id == 0 && outputs != 0 : (plan >> 116) & 0xf == 1);
            if (!isRight) revert Malformed(work.position, "lock");
            if (isHeld) {
                // The coins stand behind the outputs.
                uint256 coin = _load(body + 32 * outputs);
                // A lock that is there already is somebody's.
                if (_locks[coin] != 0) return (false, coin);
                address delegate = address(uint160(_load(section + RELEASE_BYTES) >> 96));
                uint256 expiresAt = _load(section + RELEASE_BYTES + 20) >> 192;
                _locks[coin] = _headOf(delegate, expiresAt);
                emit LockCreated(coin, delegate, uint64(expiresAt));
                return (true, 0);
            }
            uint256 head = _locks[id];
            if (head == 0 || block.timestamp <= _expiryIn(head)) return (false, id);
            delete _locks[id];
            _released = id;
            emit LockReleased(id, _delegateIn(head));
            return (true, 0);
        }
    }

    /// @dev A call's number has one byte, and no coin is that small.
    function _skipMore(uint256 leafAt, uint256 plan, uint256 number) internal override returns (uint256) {
        if ((plan >> 120) & FLAG_LOCK == 0) return super._skipMore(leafAt, plan, number);
        return _skip(leafAt, plan, SkipReason.LockChanged, bytes32(number), 0);
    }

    /// @dev What a delegate wants to have done is committed by a call of the ledger to itself, and must not be skipped.
    function _beforeSkip(SkipReason reason, bytes32 stateLeaf, uint256 stateOutput) internal view override {
        if (msg.sender == address(this)) revert NotCommitted(reason, stateLeaf, uint8(stateOutput));
    }

    /// @dev Coins that are locked are those that were named, and a release spends the coin that it names.
    function _prove(Work memory work, uint256 leafAt, uint256 plan, bytes calldata auth) internal override {
        uint256 released = _released;
        super._prove(work, leafAt, plan, auth);
        if (released != 0) {
            _released = 0;
            if (_coinsOf(work, 0, 1)[0] != released) revert Malformed(work.position, "lock");
        }
        if (msg.sender != address(this)) return;
        bool isPrepared = (plan >> 120) & FLAG_PREPARED != 0;
        uint256 inputs = (plan >> 116) & 0xf;
        uint256 outputs = (plan >> 112) & 0xf;
        if (!isPrepared || inputs == 0) revert OtherCoins();
        uint256[] memory made = _coinsOf(work, _inputSlots(work), outputs);
        if (_hashOf(_coinsOf(work, 0, inputs), made) != _named) revert OtherCoins();
    }

    /// @dev Where a delegate has something done, its id belongs to the first coin, and nobody signs.
    function _proofOf(Work memory work, uint256 leafAt, uint256 plan, bytes calldata auth)
        internal
        view
        override
        returns (bytes calldata proof, bytes32 binding)
    {
        if (msg.sender != address(this)) return super._proofOf(work, leafAt, plan, auth);
        uint256 position = work.position;
        proof = auth[_docketOf(work).start:work.proofEnd];
        if (proof.length < AUTH_HEAD_BYTES) revert MalformedAuth(position);
        uint256 validUntil = uint64(bytes8(proof[:8]));
        if (block.timestamp > validUntil) revert ProofExpired(position, validUntil, block.timestamp);
        bytes16 nonce = bytes16(proof[8:8 + NONCE_BYTES]);
        bool isZero = uint128(bytes16(proof[24:40])) == 0 && uint256(bytes32(proof[40:AUTH_HEAD_BYTES])) == 0;
        if (!isZero) revert MalformedAuth(position);
        if (bytes16(keccak256(abi.encodePacked(nonce, _first))) != bytes16(uint128(plan >> 128))) {
            revert NotIntentKey(position);
        }
        return (proof[AUTH_HEAD_BYTES:], keccak256(abi.encode(_load(leafAt), validUntil)));
    }

    /// @dev The delegate of what a release spends is this ledger, as that of all locked coins.
    function _delegateOf(uint256 plan) internal view override returns (uint256) {
        return _released != 0 ? uint160(address(this)) : super._delegateOf(plan);
    }

    /// @dev Coins among the public inputs of the transition that was proved last.
    function _coinsOf(Work memory work, uint256 from, uint256 count)
        private
        pure
        returns (uint256[] memory coins)
    {
        Docket memory docket = _docketOf(work);
        from += (docket.count - 1) * _publicInputs(docket.shape);
        coins = new uint256[](count);
        for (uint256 i = 0; i < count; ++i) coins[i] = docket.inputs[from + i];
    }

    /// @dev How many public inputs of that transition stand for coins that are spent.
    function _inputSlots(Work memory work) private pure returns (uint256) {
        uint256 shape = _docketOf(work).shape;
        return _publicInputs(shape) - 3 - (shape == SMALL ? SMALL_OUTPUTS : LARGE_OUTPUTS);
    }

    // Small change.

    function _requireDelegate(uint256 utxo) private view returns (uint256 head) {
        head = _locks[utxo];
        if (head == 0) revert LockNotActive(utxo);
        if (msg.sender != _delegateIn(head)) revert LockUnauthorized(utxo, _delegateIn(head), msg.sender);
        if (block.timestamp > _expiryIn(head)) revert LockExpired(utxo, _expiryIn(head), block.timestamp);
    }

    function _hashOf(uint256[] memory inputs, uint256[] memory outputs) private pure returns (bytes32) {
        return keccak256(abi.encode(inputs, outputs));
    }

    function _headOf(address delegate, uint256 expiresAt) private pure returns (uint256) {
        return RECORDED | (expiresAt << 160) | uint160(delegate);
    }

    function _delegateIn(uint256 head) private pure returns (address) {
        return address(uint160(head));
    }

    function _expiryIn(uint256 head) private pure returns (uint256) {
        return uint64(head >> 160);
    }
}
