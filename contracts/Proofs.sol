// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC20} from "./IERC20.sol";
import {IProofVerifier} from "./IProofVerifier.sol";
import {StateLedger} from "./StateLedger.sol";

/// @title What all ledgers have in common whose transitions each carry a zero-knowledge proof
/// @notice Nobody signs a round: whoever has the proofs may commit it. Coins are made by the issuer's signature, or of the
/// tokens of an ERC-20.
///
/// @dev The payload is that of every ledger. Of a transition's info, the first words are the commitments of its coins,
/// one for each output: what a proof is about. An output itself is the hash of all that its owner is told.
///
///     auth  = per full leaf, in order: length u16 | validUntil u64 | signature of the intent's key 64
///             | what the ledger wants to see | proof 256
///
/// An intent's id is the first 16 bytes of keccak(address) of a key that its party uses for this id alone. Every
/// transition, of whatever kind, shows that key's compact signature of its binding. So nobody else commits anything
/// under the id, and nothing links the ids of one party. An empty transition shows nothing else.
///
/// A transition without inputs that makes coins has the issuer's compact signature of its binding instead of a proof, 64
/// bytes.
///
/// `binding = keccak(leaf, validUntil)`, reduced to the field, is the last public input of every circuit: it stands for
/// all that a circuit does not look into. A leaf says nothing about time and the round's own validity is anybody's
/// choice here, so each proof has one of its own. The proof of a transition that is skipped is not looked at.
///
/// Proofs of one shape that follow one another are gathered and verified together. Until then the call goes on, for if
/// one of them is wrong everything is undone.
///
/// Calls run as this ledger, and nobody has judged them, so that a transition may have one of two, and no others: a
/// *deposit* calls the ledger's ERC-20 for `transferFrom(account, ledger, amount)`, a *withdrawal* for
/// `transfer(account, amount)`. The leaf binds its calls, and the amount is what a proof has as its net: what comes in
/// or leaves. A deposit shows the signature of its account before its proof, so that nobody deposits what is another's.
///
///     proof = [signature of a depositor 64] | proof 256
///
/// What the token does is held to what it says: the ledger must have just as much more, or less, as was to be moved.
/// Else the call has failed, and its transition is skipped, as that of every call.
abstract contract Proofs is StateLedger {
    /// @notice A verifier has no code.
    error NoVerifier(address verifier);

    /// @notice The address zero signs nothing.
    error NoIssuer();

    /// @notice `auth` ends before, within or behind the proof of this leaf, or the number of leaves if it is too long.
    error MalformedAuth(uint256 position);

    /// @notice The proof was valid until then.
    error ProofExpired(uint256 position, uint256 validUntil, uint256 time);

    /// @notice The signature is not by the key that the intent's id stands for.
    error NotIntentKey(uint256 position);

    /// @notice Coins are made of nothing by the issuer alone, whose signature this is not.
    error NotIssued(uint256 position);

    /// @notice The verifier refuses the proof.
    error WrongProof(uint256 position);

    /// @notice Coins are made of somebody's tokens by a signature of his, which this is not.
    error NotDeposited(uint256 position, address account);

    /// @notice The ERC-20 is set once.
    error AlreadySet(address erc20);

    /// @notice Only the issuer may do this: its signature stands behind the call's arguments.
    error NotIssuer();

    /// @notice There is no contract that could be an ERC-20.
    error NoERC20(address erc20);

    /// @notice By the terms of this token its coins are made of an ERC-20 alone, and the issuer mints none beside it.
    error MintBesideERC20(uint256 position);

    /// @notice By the terms of this token no ERC-20 is set once coins were minted: none would stand behind these.
    error MintedBeforeERC20();

    /// @notice What is called is not the ERC-20 that was set.
    error WrongERC20(address called, address erc20);

    /// @notice The ERC-20 answered that it did not do what it was asked for.
    error Declined();

    /// @notice The ledger had so much of the ERC-20, and has so much, where another amount was to be moved.
    error WrongAmountMoved(uint256 had, uint256 has, uint256 amount);

    /// @notice From now on this is the ERC-20 that coins are made of and turned into.
    event ERC20Set(address erc20);

    /// @dev What one commit knows of its proofs: where that of the leaf at hand begins in `auth`, and those of one
    /// shape that wait to be verified, with their public inputs and the positions of their leaves.
    struct Docket {
        uint256 start;
        uint256 shape;
        uint256 count;
        uint256[] inputs;
        bytes proofs;
        uint256[] positions;
        // The coins that this call makes, where the ledger wants to know of them at its end.
        uint256[] coins;
        uint256 coinCount;
    }

    uint256 internal constant SMALL = 0;
    uint256 internal constant LARGE = 1;
    uint256 internal constant SMALL_OUTPUTS = 2;
    uint256 internal constant LARGE_OUTPUTS = 8;

    /// @dev The order of the field that circuits compute in.
    uint256 internal constant FIELD =
        21888242871839275222246405745257275088548364400416034343698204186575808495617;

    /// @dev An amount is below this.
    uint256 private constant AMOUNT_END = 2 ** 100;

    /// @dev The bytes of a call of `transferFrom` and of `transfer`, and of `setERC20` without the signature behind it.
    uint256 private constant DEPOSIT_BYTES = 100;
    uint256 private constant WITHDRAWAL_BYTES = 68;
    uint256 private constant SET_BYTES = 36;

    uint256 private constant PROOF_BYTES = 256;
    uint256 private constant SIGNATURE_BYTES = 64;

    /// @dev What stands first for every leaf: its validity, and the signature of its intent's key.
    uint256 internal constant AUTH_HEAD_BYTES = 8 + 64;

    uint256 private constant HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0;

    /// @notice Checks proofs of the small circuit.
    IProofVerifier public immutable smallVerifier;

    /// @notice Checks proofs of the large circuit.
    IProofVerifier public immutable largeVerifier;

    /// @notice Signs for the coins that are made of nothing.
    address public immutable issuer;

    /// @notice Whether the issuer may both mint coins and set an ERC-20. If not, the first of the two excludes the other,
    /// so that every coin of a token with an ERC-20 was deposited.
    bool public immutable unbackedMints;

    /// @notice The ERC-20 that coins are made of and turned into, or zero.
    address public erc20;

    /// @dev Whether coins were minted; kept only where that excludes an ERC-20. It shares the word of `erc20`.
    bool private _isMinted;

    constructor(address coinIssuer, IProofVerifier small, IProofVerifier large, bool mayMintUnbacked) {
        if (coinIssuer == address(0)) revert NoIssuer();
        if (address(small).code.length == 0) revert NoVerifier(address(small));
        if (address(large).code.length == 0) revert NoVerifier(address(large));
        issuer = coinIssuer;
        smallVerifier = small;
        largeVerifier = large;
        unbackedMints = mayMintUnbacked;
    }

    /// @notice Say which ERC-20 coins are made of and turned into, once and for ever.
    /// @dev The issuer is known here by an address that only signs, so whoever sends this has its signature with him: 64
    /// bytes behind the argument, of the hash of this ledger's domain and all that stands before them.
    /// @param token The ERC-20
    function setERC20(address token) external {
        bytes32 digest = keccak256(abi.encodePacked(domainSeparator(), msg.data[:SET_BYTES]));
        if (!_isSignedBy(issuer, digest, msg.data[SET_BYTES:])) revert NotIssuer();
        if (erc20 != address(0)) revert AlreadySet(erc20);
        if (_isMinted) revert MintedBeforeERC20();
        if (token.code.length == 0 || token == address(this)) revert NoERC20(token);
        erc20 = token;
        emit ERC20Set(token);
    }

    /// @notice Moves what a transition moves. Only the ledger itself may ask for it: it is a frame of its own so that
    /// all of it together has the gas that is stated, and is undone when something else than that was moved.
    /// @param token What the transition calls
    /// @param transfer The call
    function move(address token, bytes calldata transfer) external {
        if (msg.sender != address(this)) revert OnlyLedger();
        if (token != erc20) revert WrongERC20(token, erc20);
        uint256 had = IERC20(token).balanceOf(address(this));
        (bool isDone, bytes memory answer) = token.call(transfer);
        if (!isDone) {
            assembly ("memory-safe") {
                revert(add(answer, 0x20), mload(answer))
            }
        }
        // Tokens that say nothing have done it.
        if (answer.length != 0 && (answer.length != 32 || uint256(bytes32(answer)) != 1)) revert Declined();
        uint256 has = IERC20(token).balanceOf(address(this));
        uint256 amount = uint256(bytes32(transfer[transfer.length - 32:]));
        (uint256 less, uint256 more) = transfer.length == DEPOSIT_BYTES ? (had, has) : (has, had);
        if (more < less || more - less != amount) revert WrongAmountMoved(had, has, amount);
    }

    /// @dev How many public inputs a circuit has.
    function _publicInputs(uint256 shape) internal pure virtual returns (uint256);

    /// @dev Each transition is authorised by its own proof.
    function _authorise(bytes32, bytes calldata) internal view override {}

    function _turnTo(Work memory work, uint256 leafAt, bytes calldata auth) internal pure override {
        uint256 position = _positionOf(work, leafAt);
        uint256 start = work.proofEnd + 2;
        if (start > auth.length) revert MalformedAuth(position);
        work.position = position;
        _docketOf(work).start = start;
        work.proofEnd = start + uint16(bytes2(auth[start - 2:start]));
        if (work.proofEnd > auth.length) revert MalformedAuth(position);
    }

    /// @dev What is to be done when all transitions were applied and all proofs are right.
    function _settle(Docket memory docket) internal virtual {}

    function _finish(Work memory work, bytes calldata auth) internal override {
        if (work.proofEnd != auth.length) revert MalformedAuth(work.count);
        if (work.docket == 0) return;
        Docket memory docket = _docketOf(work);
        _verifyGathered(docket);
        _settle(docket);
    }

    /// @dev Checks validity and the signature of the intent's key. Returns what stands in `auth` for the leaf at hand
    /// behind them, and what the proof has to bind.
    function _proofOf(Work memory work, uint256 leafAt, uint256 plan, bytes calldata auth)
        internal
        view
        virtual
        returns (bytes calldata proof, bytes32 binding)
    {
        uint256 position = work.position;
        proof = auth[_docketOf(work).start:work.proofEnd];
        if (proof.length < AUTH_HEAD_BYTES) revert MalformedAuth(position);
        uint256 validUntil = uint64(bytes8(proof[:8]));
        if (block.timestamp > validUntil) revert ProofExpired(position, validUntil, block.timestamp);
        binding = keccak256(abi.encode(_load(leafAt), validUntil));
        uint256 signer;
        uint256 hash;
        // As `_isSignedBy` does, at half its cost: the precompiled contract 1 is given hash, v, r and s, and returns
        // nothing when they are nobody's.
        assembly ("memory-safe") {
            let tail := calldataload(add(proof.offset, 40))
            let s := shr(1, shl(1, tail))
            if iszero(gt(s, HALF_ORDER)) {
                let room := mload(0x40)
                mstore(room, binding)
                mstore(add(room, 0x20), add(27, shr(255, tail)))
                mstore(add(room, 0x40), calldataload(add(proof.offset, 8)))
                mstore(add(room, 0x60), s)
                mstore(0, 0)
                if iszero(staticcall(gas(), 1, room, 0x80, 0, 0x20)) { revert(0, 0) }
                signer := mload(0)
            }
            mstore(0, shl(96, signer))
            hash := keccak256(0, 20)
            proof.offset := add(proof.offset, AUTH_HEAD_BYTES)
            proof.length := sub(proof.length, AUTH_HEAD_BYTES)
        }
        if (signer == 0 || (hash ^ plan) >> 128 != 0) revert NotIntentKey(position);
    }

    /// @dev Whether a transition only uses its intent up, for whoever commits it. Then there is nothing to be proved.
    function _isEmpty(uint256 plan) internal pure returns (bool) {
        return (plan >> 104) & 0xffff == 0 && (plan >> 120) & (FLAG_CALLS | FLAG_PREPARED) == 0;
    }

    /// @dev Whether it is by the issuer's word that this transition makes coins: of nothing.
    function _isIssued(uint256 plan) internal pure returns (bool) {
        return (plan >> 116) & 0xf == 0 && (plan >> 112) & 0xf != 0 && (plan >> 120) & FLAG_CALLS == 0;
    }

    /// @dev Reverts unless the issuer has signed, and may mint.
    function _requireIssuer(uint256 position, bytes32 binding, bytes calldata proof) internal {
        if (proof.length != SIGNATURE_BYTES) revert MalformedAuth(position);
        if (!_isSignedBy(issuer, binding, proof)) revert NotIssued(position);
        if (unbackedMints) return;
        if (erc20 != address(0)) revert MintBesideERC20(position);
        if (!_isMinted) _isMinted = true;
    }

    /// @dev A commitment, which must be some coin's. Zero is the slot of a circuit that is not used and the child of a tree
    /// that is not there, and what is no element of the field cannot be hashed.
    function _coinAt(uint256 position, uint256 cursor) internal pure returns (uint256 coin) {
        coin = _load(cursor);
        if (coin == 0 || coin >= FIELD) revert Malformed(position, "coin");
    }

    /// @dev Whether this is the compact signature (EIP-2098) of that address, which is not zero.
    function _isSignedBy(address signer, bytes32 digest, bytes calldata signature) internal pure returns (bool) {
        if (signature.length != SIGNATURE_BYTES) return false;
        uint256 tail = uint256(bytes32(signature[32:]));
        bytes32 s = bytes32(tail << 1 >> 1);
        if (uint256(s) > HALF_ORDER || signer == address(0)) return false;
        return ecrecover(digest, uint8(27 + (tail >> 255)), bytes32(signature[:32]), s) == signer;
    }

    // What is moved.

    /// @dev Every word of a body is looked at here, so it is not given as a hash; and calls are one of two.
    function _admit(Work memory work, uint256 plan, uint256 body, bytes calldata)
        internal
        view
        virtual
        override
        returns (bytes32)
    {
        if ((plan >> 120) & FLAG_BODY != 0) revert Malformed(work.position, "body");
        if ((plan >> 120) & FLAG_CALLS != 0) _movementOf(work, plan, body);
        return 0;
    }

    /// @dev Whose tokens are moved, and how many, by a deposit or a withdrawal.
    function _movementOf(Work memory work, uint256 plan, uint256 body)
        private
        view
        returns (address account, uint256 amount, bool isDeposit)
    {
        uint256 calls = body + _bodyBytes(plan);
        uint256 head = _load(calls);
        // One call: n u8, to 20, gas u32, length u16, data.
        uint256 length = (head >> 40) & 0xffff;
        uint256 data = calls + 27;
        bytes4 selector = bytes4(bytes32(_load(data)));
        isDeposit = length == DEPOSIT_BYTES && selector == IERC20.transferFrom.selector
            && _load(data + 36) == uint160(address(this));
        bool isWithdrawal = length == WITHDRAWAL_BYTES && selector == IERC20.transfer.selector;
        uint256 word = _load(data + 4);
        amount = _load(data + length - 32);
        bool isRight = head >> 248 == 1 && (isDeposit || isWithdrawal) && word >> 160 == 0;
        if (!isRight || amount == 0 || amount >= AMOUNT_END) revert Malformed(work.position, "calls");
        account = address(uint160(word));
    }

    /// @dev What comes into the private set less what leaves it, as a number of the field. Returns also what of a proof
    /// follows the signature of a depositor.
    function _netOf(Work memory work, uint256 plan, uint256 body, bytes32 binding, bytes calldata proof)
        internal
        view
        returns (uint256 net, bytes calldata)
    {
        if ((plan >> 120) & FLAG_CALLS == 0) return (0, proof);
        (address account, uint256 amount, bool isDeposit) = _movementOf(work, plan, body);
        if (!isDeposit) return (FIELD - amount, proof);
        if (proof.length < SIGNATURE_BYTES) revert MalformedAuth(work.position);
        bool isSigned = _isSignedBy(account, binding, proof[:SIGNATURE_BYTES]);
        if (!isSigned) revert NotDeposited(work.position, account);
        return (amount, proof[SIGNATURE_BYTES:]);
    }

    function _call(address to, uint256 gasLimit, bytes memory input) internal override returns (bool) {
        return _callExactly(address(this), gasLimit, abi.encodeCall(this.move, (to, input)));
    }

    // What is gathered.

    /// @dev Gathers a proof. Returns where its public inputs begin, for the caller to fill in. They are zero, as what a
    /// transition does not use stays so, but for the last, the binding.
    function _gather(Work memory work, uint256 shape, bytes32 binding, bytes calldata proof)
        internal
        view
        virtual
        returns (uint256 first)
    {
        if (proof.length != PROOF_BYTES) revert MalformedAuth(work.position);
        Docket memory docket = _docketOf(work);
        if (docket.shape != shape) {
            _verifyGathered(docket);
            docket.shape = shape;
        }
        if (docket.positions.length == 0) {
            // Room for as many as there can be, once: what is gathered later takes the place of what was verified.
            docket.positions = new uint256[](work.count);
            docket.inputs = new uint256[](work.count * _publicInputs(LARGE));
            docket.proofs = new bytes(work.count * PROOF_BYTES);
        }
        uint256 size = _publicInputs(shape);
        (uint256 place, uint256[] memory inputs, bytes memory proofs) = (docket.count, docket.inputs, docket.proofs);
        assembly ("memory-safe") {
            first := add(add(inputs, 0x20), shl(5, mul(place, size)))
            calldatacopy(first, calldatasize(), shl(5, size))
            calldatacopy(add(add(proofs, 0x20), mul(place, PROOF_BYTES)), proof.offset, PROOF_BYTES)
        }
        _save(first + 32 * (size - 1), uint256(binding) % FIELD);
        docket.positions[place] = work.position;
        docket.count = place + 1;
    }

    /// @dev Reverts unless all that was gathered is right, naming the first that is not.
    function _verifyGathered(Docket memory docket) private view {
        uint256 count = docket.count;
        if (count == 0) return;
        if (!_areRight(docket, 0, count)) {
            for (uint256 i = 0; i < count; ++i) {
                if (!_areRight(docket, i, 1)) revert WrongProof(docket.positions[i]);
            }
            revert WrongProof(docket.positions[0]);
        }
        docket.count = 0;
    }

    /// @dev Asks the verifier about so many of those that were gathered.
    function _areRight(Docket memory docket, uint256 from, uint256 count) private view returns (bool) {
        uint256 size = 32 * _publicInputs(docket.shape);
        uint256[] memory inputs = new uint256[](count * size / 32);
        bytes memory proofs = new bytes(count * PROOF_BYTES);
        (uint256[] memory allInputs, bytes memory allProofs) = (docket.inputs, docket.proofs);
        assembly ("memory-safe") {
            mcopy(add(inputs, 0x20), add(add(allInputs, 0x20), mul(from, size)), mul(count, size))
            mcopy(add(proofs, 0x20), add(add(allProofs, 0x20), mul(from, PROOF_BYTES)), mul(count, PROOF_BYTES))
        }
        return (docket.shape == SMALL ? smallVerifier : largeVerifier).verify(inputs, proofs);
    }

    /// @dev The delegate of what is spent. Who commits a prepared transition is its committer: reading has seen to it.
    function _delegateOf(uint256 plan) internal view virtual returns (uint256) {
        if ((plan >> 120) & FLAG_PREPARED == 0) return 0;
        return _load((plan & 0xffffffff) - PREPARATION_BYTES) >> 96;
    }

    /// @dev Where the inputs begin: behind the reads.
    function _inputsOf(Work memory work, uint256 plan) internal pure returns (uint256 cursor) {
        cursor = plan & 0xffffffff;
        for (uint256 left = (plan >> 108) & 0xf; left != 0; --left) (,,, cursor) = _reference(work.leaves, cursor);
    }

    /// @dev The word that is kept: the bits of the outputs, and the hash of the coins in the others.
    function _wordToKeep(uint256 outputs, uint256 plan, uint256 body) internal pure override returns (uint256) {
        uint256 bytes_ = 32 * ((plan >> 112) & 0xf);
        return (_hash(body + bytes_, bytes_) & ~uint256(0xffff)) | outputs;
    }

    function _docketOf(Work memory work) internal pure returns (Docket memory docket) {
        uint256 found = work.docket;
        if (found == 0) {
            Docket memory made;
            assembly ("memory-safe") {
                found := made
            }
            work.docket = found;
        }
        assembly ("memory-safe") {
            docket := found
        }
    }
}
