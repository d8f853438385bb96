// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IStateLedger} from "./IStateLedger.sol";

/// @title States, intents and rounds of one private contract
/// @notice A round is a set of permissions: its holder may commit any part of it, in several transactions, until it
/// expires. Whoever inherits says who may permit a round.
///
/// @dev Theory of operation. A call of `commit` goes over the payload twice.
///
/// First it *reads*: it works out every leaf from what is given, and from the leaves the round's digest, which the
/// policy has to find authorised. Nothing of the ledger is looked at, so what is wrong here is wrong for ever, and
/// the whole call reverts.
///
/// Then it *applies*, in the order given. What stands in the way of a transition now depends on the ledger, so it
/// skips that transition and nothing else. States that were made by this call live in memory; when all is done, what
/// is left of them goes to storage, one word for each transition. So a state that is made and spent by one call
/// never touches storage, and two calls in one transaction share nothing but storage.
///
///     payload   = validUntil u64 | n u8 | n leaves
///     bare      = 00 | leaf 32
///     full      = flags | counter u8 | inputs:outputs | reads:info | [page 15] | [committer 20, condition 32]
///                 | references (reads, then inputs) | outputs 32*, info 32* (or their body hash 32)
///                 | [calls: n u8, (to 20, gas u32, length u16, data)*] | [lock, see `Lockable`]
///     flags     = 80 | 1 page | 2 prepared | 4 calls | 8 body | 10 lock
///     reference = position u8, output u8 (an earlier leaf of this payload) | FF, output u8, leaf 32
///     core      = keccak(separator | intent 16, flags & 94, counts | per reference: leaf 32, output u8
///                 | keccak(outputs | info) | [keccak(calls | lock)])
///     leaf      = core, or when prepared keccak(core, committer, condition)
///
/// Memory. Room for a preimage, the leaves, their plans, and the payload. It is copied there once, behind the words
/// that stand before it in the log, so that bodies are hashed and the log is written where they lie. A read beyond its
/// end finds other memory, but no leaf is accepted that ends behind it.
///
/// Assembly reads and writes single words, and does the two things that are worth it: reading plain leaves, which is
/// where the gas goes, and calling with an exact amount of gas, which Solidity cannot.
abstract contract StateLedger is IStateLedger {
    /// @notice The payload cannot be read.
    /// @param position The leaf, or the number of leaves when something follows the last one
    /// @param field What is wrong with it
    error Malformed(uint256 position, bytes32 field);

    /// @notice The round was valid until then.
    error Expired(uint256 validUntil, uint256 time);

    /// @notice A prepared transition is committed by its committer alone.
    error WrongCommitter(uint256 position, address committer);

    /// @notice A prepared transition is committed under its condition alone.
    error WrongCondition(uint256 position, bytes32 condition);

    /// @notice A transition may call every contract but this one.
    error CallToLedger(uint256 position);

    /// @notice There is too little gas left to give the calls of a transition what they are stated to get.
    error TooLittleGas(uint256 position);

    /// @notice One of the calls of a transition failed. It never leaves this contract: the transition is skipped.
    error CallFailed(uint256 number);

    /// @notice A contract that the ledger calls may neither commit nor ask for states meanwhile.
    error Reentered();

    /// @notice Only the ledger itself runs calls.
    error OnlyLedger();

    /// @dev What one commit knows. `leaves` and `plans` are memory addresses of one word for each leaf. A plan is
    /// what reading has found out about a full leaf, and nought for a bare one:
    ///     intent 16 | flags u8 | inputs:outputs u8 | reads:info u8 | zeros | memory address of the references u32
    /// When a transition is committed, its plan gives place to the word of its unspent outputs, else to nought.
    struct Work {
        uint256 payload;
        uint256 end;
        uint256 count;
        uint256 leaves;
        uint256 plans;
        uint256 committed;
        uint256 page;
        uint256 pageBits;
        bool isPageChanged;
        uint256 prepared;
        bytes32 preparedHash;
        // Of the policies that prove: the leaf at hand, what they have gathered, and where its proof ends in `auth`.
        uint256 position;
        uint256 docket;
        uint256 proofEnd;
    }

    uint256 internal constant FLAG_PAGE = 0x01;
    uint256 internal constant FLAG_PREPARED = 0x02;
    uint256 internal constant FLAG_CALLS = 0x04;
    uint256 internal constant FLAG_BODY = 0x08;
    uint256 internal constant FLAG_LOCK = 0x10;
    uint256 internal constant FLAGS_FULL = 0x80;
    uint256 internal constant FLAGS_FULL_MASK = 0xf0;
    uint256 internal constant FLAGS_BOUND = 0x84;

    /// @dev The position of a reference that spells its leaf out. There are at most 255 leaves, so it is none of them.
    uint256 internal constant NOT_HERE = 0xff;

    /// @dev The bits of a word that stand for outputs: a count has four bits, so there are 15 at most.
    uint256 internal constant OUTPUTS = 0x7fff;

    uint256 private constant NO_PAGE = type(uint256).max;
    uint256 private constant HEAD_BYTES = 9;
    uint256 private constant CALL_HEAD_BYTES = 26;
    uint256 internal constant PREPARATION_BYTES = 52;

    /// @dev The room before the leaves, in which each leaf's preimage is written: a separator, an intent with flags and
    /// counts, 30 references and two hashes, rounded up to whole words.
    uint256 private constant PREIMAGE_BYTES = 1120;

    /// @dev Where a preimage's references begin: behind a separator, an intent, flags and counts.
    uint256 private constant PREIMAGE_HEAD_BYTES = 51;

    /// @dev What is spent between the look at the gas that is left and the call: a warm CALL and what prepares it.
    uint256 private constant CALL_OVERHEAD_GAS = 400;

    bytes32 private constant DOMAIN_TYPE =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");
    bytes32 private constant ROUND_TYPE = keccak256("Round(bytes32[] leaves,uint64 validUntil)");
    bytes32 private constant ROUND_TOPIC = keccak256("Round(bytes32,uint256,bytes)");

    bytes32 private immutable _separator;
    uint256 private immutable _chainId;

    mapping(bytes32 leaf => uint256 word) internal _unspent;
    mapping(uint256 page => uint256 bits) private _used;
    bool private transient _isCalling;

    /// @dev What is asked or done while the ledger calls others would see a round half applied.
    modifier whenNotCalling() {
        if (_isCalling) revert Reentered();
        _;
    }

    constructor() {
        _chainId = block.chainid;
        _separator = _separatorNow();
    }

    /// @inheritdoc IStateLedger
    function commit(bytes calldata payload, bytes32 condition, bytes calldata auth)
        external
        whenNotCalling
        returns (uint256 committed, bytes32 preparedHash)
    {
        Work memory work = _copyToMemory(payload);
        uint256 validUntil = _load(work.payload) >> 192;
        if (block.timestamp > validUntil) revert Expired(validUntil, block.timestamp);
        bytes32 separator = domainSeparator();
        _readLeaves(work, separator, condition);
        bytes32 digest = _digest(work, separator, validUntil);
        _authorise(digest, auth);
        _applyLeaves(work, payload, auth);
        _storeStates(work);
        committed = work.committed;
        // A leg that is skipped must not look like one that was committed.
        preparedHash = work.prepared & ~committed == 0 ? work.preparedHash : bytes32(0);
        _logRound(work, digest, payload.length);
    }

    /// @notice Runs the calls of one transition, all or none. Only the ledger itself may ask for it: it is a frame of
    /// its own so that all calls are undone when one fails.
    /// @param calls Their number, then each with its target, its gas and its data, as they stand in the payload
    function runCalls(bytes calldata calls) external {
        if (msg.sender != address(this)) revert OnlyLedger();
        _isCalling = true;
        uint256 count = uint8(calls[0]);
        uint256 cursor = 1;
        for (uint256 number = 0; number < count; ++number) {
            address to = address(bytes20(calls[cursor:cursor + 20]));
            uint256 gasLimit = uint32(bytes4(calls[cursor + 20:cursor + 24]));
            uint256 end = cursor + CALL_HEAD_BYTES + uint16(bytes2(calls[cursor + 24:cursor + 26]));
            bytes memory input = calls[cursor + CALL_HEAD_BYTES:end];
            // A call of nothing would succeed. Looking also warms the address, so that the call costs what we think.
            if (to.code.length == 0) revert CallFailed(number);
            if (!_call(to, gasLimit, input)) revert CallFailed(number);
            cursor = end;
        }
        _isCalling = false;
    }

    /// @notice Whether an intent was used, and by this can never be committed again.
    /// @param intent The intent's id
    function isUsed(bytes16 intent) external view whenNotCalling returns (bool) {
        uint256 id = uint128(intent);
        return _used[id >> 8] >> (id & 0xff) & 1 == 1;
    }

    /// @notice The outputs of a transition that are there and not spent.
    /// @param leaf The transition's leaf
    /// @return outputs Bit i is set when output i is unspent; zero for a leaf that was not committed
    function unspentOf(bytes32 leaf) external view whenNotCalling returns (uint256 outputs) {
        return _unspent[leaf] & OUTPUTS;
    }

    /// @notice The EIP-712 domain of this ledger. It follows the chain id, so that what is signed on one side of a
    /// fork is worth nothing on the other.
    function domainSeparator() public view returns (bytes32) {
        return block.chainid == _chainId ? _separator : _separatorNow();
    }

    // What a policy decides.

    /// @dev Reverts unless whoever has to has permitted this round.
    function _authorise(bytes32 digest, bytes calldata auth) internal view virtual;

    /// @dev Turns to the full leaf that stands there, which may yet be skipped.
    function _turnTo(Work memory work, uint256 leafAt, bytes calldata auth) internal view virtual {}

    /// @dev Reverts unless this transition, whose reads and inputs are there, may call what it calls. Returns what else
    /// it stands on that the ledger does not have, or not any more; then it is skipped.
    function _admit(Work memory work, uint256 plan, uint256 body, bytes calldata auth)
        internal
        view
        virtual
        returns (bytes32 missing)
    {}

    /// @dev Makes one call of a transition, with exactly this gas. Says whether it succeeded.
    function _call(address to, uint256 gasLimit, bytes memory input) internal virtual returns (bool) {
        return _callExactly(to, gasLimit, input);
    }

    /// @dev Reverts unless this transition is proved, which nothing but that stands in the way of.
    function _prove(Work memory work, uint256 leafAt, uint256 plan, bytes calldata auth) internal virtual {}

    /// @dev Reverts unless all of `auth` was used.
    function _finish(Work memory work, bytes calldata auth) internal virtual {}

    /// @dev `FLAG_LOCK` where transitions may change a lock, else nought.
    function _lockFlag() internal pure virtual returns (uint256) {
        return 0;
    }

    /// @dev How many bytes the lock section takes that begins at `cursor`. Reverts if there is none.
    function _lockBytes(uint256 position, uint256 cursor) internal pure virtual returns (uint256) {}

    /// @dev Skips a transition whose calls or lock stand in the way, given what `_run` said.
    function _skipMore(uint256 leafAt, uint256 plan, uint256 number) internal virtual returns (uint256) {
        return _skip(leafAt, plan, SkipReason.CallFailed, 0, number);
    }

    /// @dev Reverts where a transition must not be skipped.
    function _beforeSkip(SkipReason reason, bytes32 stateLeaf, uint256 stateOutput) internal view virtual {}

    /// @dev Whether inputs are states, which are spent by clearing their bits.
    function _areInputsStates() internal pure virtual returns (bool);

    /// @dev The bits of a word among which an output is looked for; all, where a word has no others.
    function _bitsOfOutputs() internal pure virtual returns (uint256) {
        return type(uint256).max;
    }

    /// @dev Spends an input that this call has not made, if it is there.
    function _spend(Work memory work, uint256 place, bytes32 leaf, uint256 output) internal virtual returns (bool);

    /// @dev Takes back what `_spend` did to an input.
    function _restore(Work memory work, uint256 place, bytes32 leaf, uint256 output) internal virtual;

    /// @dev The word that is kept for a transition, given the bits of its outputs and the hash of its body.
    function _wordToKeep(uint256 outputs, uint256 plan, uint256 body) internal view virtual returns (uint256);

    // Reading.

    /// @dev Lays memory out: room for a preimage, leaves, plans, then the log's data with the payload in it.
    function _copyToMemory(bytes calldata payload) private pure returns (Work memory work) {
        if (payload.length < HEAD_BYTES) revert Malformed(0, "length");
        uint256 count = uint8(payload[8]);
        if (count == 0) revert Malformed(0, "count");
        uint256 leaves;
        // The free pointer moves behind all that is laid out here. Plans begin as those of bare leaves: what is copied
        // from behind the call data is zero. So is the word behind the payload, as a log is padded.
        assembly ("memory-safe") {
            leaves := add(mload(0x40), PREIMAGE_BYTES)
            let plans := add(leaves, shl(5, count))
            calldatacopy(plans, calldatasize(), shl(5, count))
            let copy := add(add(leaves, shl(6, count)), 0x60)
            calldatacopy(copy, payload.offset, payload.length)
            mstore(add(copy, payload.length), 0)
            mstore(0x40, and(add(add(copy, payload.length), 0x3f), not(0x1f)))
        }
        unchecked {
            work.count = count;
            work.leaves = leaves;
            work.plans = leaves + 32 * count;
            work.payload = work.plans + 32 * count + 96;
            work.end = work.payload + payload.length;
        }
        work.page = NO_PAGE;
    }

    /// @dev Works out every leaf and makes a plan for every one that is given in full.
    function _readLeaves(Work memory work, bytes32 separator, bytes32 condition) private view {
        unchecked {
            _save(work.leaves - PREIMAGE_BYTES, uint256(separator));
            (uint256 leafAt, uint256 cursor, uint256 page) = (work.leaves, work.payload + HEAD_BYTES, NO_PAGE);
            while (true) {
                (leafAt, cursor, page) = _readPlainLeaves(work, leafAt, cursor, page);
                // Of a payload that ends too early, read again from the start, `_readLeaf` names the leaf.
                bool isShort = cursor > work.end;
                if (isShort) (leafAt, cursor, page) = (work.leaves, work.payload + HEAD_BYTES, NO_PAGE);
                if (leafAt == work.plans) break;
                do {
                    (cursor, page) = _readLeaf(work, leafAt, cursor, page, condition);
                    leafAt += 32;
                } while (isShort);
            }
            if (cursor != work.end) revert Malformed(work.count, "length");
        }
    }

    /// @dev Reads the leaf that begins at `cursor`, of whatever kind. Returns where the next one begins, and the page
    /// that it has if it names none.
    function _readLeaf(Work memory work, uint256 leafAt, uint256 cursor, uint256 page, bytes32 condition)
        private
        view
        returns (uint256, uint256)
    {
        unchecked {
            uint256 head = _load(cursor);
            uint256 flags = head >> 248;
            uint256 leaf;
            if (flags == 0) {
                leaf = _load(cursor + 1);
                cursor += 33;
            } else {
                if (flags & (FLAGS_FULL_MASK ^ _lockFlag()) != FLAGS_FULL) {
                    revert Malformed(_positionOf(work, leafAt), "flags");
                }
                cursor += 4;
                if (flags & FLAG_PAGE != 0) {
                    page = _load(cursor) >> 136;
                    cursor += 15;
                } else if (page == NO_PAGE) {
                    revert Malformed(_positionOf(work, leafAt), "page");
                }
                if (flags & FLAG_PREPARED != 0) cursor += PREPARATION_BYTES;
                uint256 plan = (page << 136) | (((head >> 240) & 0xff) << 128) | (((head >> 224) & 0xffff) << 104);
                _save(leafAt + 32 * work.count, plan | (flags << 120) | cursor);
                _save(work.leaves - PREIMAGE_BYTES + 32, plan | ((flags & (FLAGS_BOUND | _lockFlag())) << 120));
                (cursor, leaf) = _readRest(work, leafAt, cursor, plan | (flags << 120), condition);
            }
            if (cursor > work.end) revert Malformed(_positionOf(work, leafAt), "length");
            _save(leafAt, leaf);
            return (cursor, page);
        }
    }

    /// @dev Reads a transition from its references on. Returns where the next leaf begins, and this one.
    function _readRest(Work memory work, uint256 leafAt, uint256 cursor, uint256 plan, bytes32 condition)
        private
        view
        returns (uint256, uint256)
    {
        unchecked {
            uint256 flags = plan >> 120;
            uint256 references = cursor;
            uint256 preimage = work.leaves - PREIMAGE_BYTES;
            uint256 tail = preimage + PREIMAGE_HEAD_BYTES;
            for (uint256 left = ((plan >> 116) & 0xf) + ((plan >> 108) & 0xf); left != 0; --left) {
                (uint256 place, bytes32 maker, uint256 output, uint256 next) = _reference(work.leaves, cursor);
                uint256 position = _positionOf(work, leafAt);
                if (place >= position && place != NOT_HERE) revert Malformed(position, "reference");
                _save(tail, uint256(maker));
                _saveByte(tail + 32, output);
                tail += 33;
                cursor = next;
            }
            uint256 bodyBytes = _bodyBytes(plan);
            _save(tail, flags & FLAG_BODY != 0 ? _load(cursor) : _hash(cursor, bodyBytes));
            cursor += bodyBytes;
            tail += 32;
            if (flags & (FLAG_CALLS | _lockFlag()) != 0) {
                uint256 moreBytes = 0;
                if (_lockFlag() == 0 || flags & FLAG_CALLS != 0) {
                    moreBytes = _callsBytes(_positionOf(work, leafAt), cursor, work.end);
                }
                if (flags & _lockFlag() != 0) moreBytes += _lockBytes(_positionOf(work, leafAt), cursor + moreBytes);
                _save(tail, _hash(cursor, moreBytes));
                cursor += moreBytes;
                tail += 32;
            }
            uint256 leaf = _hash(preimage, tail - preimage);
            if (flags & FLAG_PREPARED != 0) {
                leaf = _prepare(work, leafAt, leaf, references - PREPARATION_BYTES, condition);
            }
            return (cursor, leaf);
        }
    }

    /// @dev Does what `_readLeaf` does, for one leaf after the other and at half its cost, as long as they are bare, or
    /// full and neither prepared nor with calls. It decides nothing: it stops before a leaf that is anything else, that
    /// refers to a later one or that lacks a page, so that `_readLeaf` reads it and says what is wrong. It does not
    /// look where the payload ends: whoever calls does.
    function _readPlainLeaves(Work memory work, uint256 leafAt, uint256 cursor, uint256 page)
        private
        pure
        returns (uint256, uint256, uint256)
    {
        uint256 leaves = work.leaves;
        uint256 leafEnd = work.plans;
        assembly ("memory-safe") {
            for {} lt(leafAt, leafEnd) { leafAt := add(leafAt, 0x20) } {
                let head := mload(cursor)
                if iszero(byte(0, head)) {
                    mstore(leafAt, mload(add(cursor, 1)))
                    cursor := add(cursor, 33)
                    continue
                }
                // 80, and no flag but 1 (page) and 8 (body).
                if xor(and(byte(0, head), 0xf6), 0x80) { break }
                let next := add(cursor, 4)
                if and(byte(0, head), 1) {
                    page := shr(136, mload(next))
                    next := add(next, 15)
                }
                let isOdd := iszero(not(page))
                // The intent and both counts, with the flags between them: as the leaf binds them, and as they are.
                let tail := or(shl(136, page), or(shl(128, byte(1, head)), shl(104, and(shr(224, head), 0xffff))))
                mstore(add(sub(leaves, PREIMAGE_BYTES), 0x20), or(tail, shl(127, 1)))
                mstore(add(leafAt, sub(leafEnd, leaves)), or(or(tail, shl(120, byte(0, head))), next))
                // Each reference is written out as leaf and output.
                tail := add(sub(leaves, PREIMAGE_BYTES), PREIMAGE_HEAD_BYTES)
                for { let left := add(shr(4, byte(2, head)), shr(4, byte(3, head))) } left { left := sub(left, 1) } {
                    let reference := mload(next)
                    next := add(next, 2)
                    mstore8(add(tail, 0x20), byte(1, reference))
                    reference := byte(0, reference)
                    switch reference
                    case 0xff {
                        mstore(tail, mload(next))
                        next := add(next, 0x20)
                    }
                    default {
                        reference := add(leaves, shl(5, reference))
                        isOdd := or(isOdd, iszero(lt(reference, leafAt)))
                        mstore(tail, mload(reference))
                    }
                    tail := add(tail, 33)
                }
                if isOdd { break }
                switch and(byte(0, head), 8)
                case 0 {
                    let size := shl(5, add(and(byte(2, head), 0xf), and(byte(3, head), 0xf)))
                    mstore(tail, keccak256(next, size))
                    cursor := add(next, size)
                }
                default {
                    mstore(tail, mload(next))
                    cursor := add(next, 0x20)
                }
                let preimage := sub(leaves, PREIMAGE_BYTES)
                mstore(leafAt, keccak256(preimage, sub(add(tail, 0x20), preimage)))
            }
        }
        return (leafAt, cursor, page);
    }

    /// @dev The leaf of a prepared transition, whose core joins the hash that `commit` returns.
    function _prepare(Work memory work, uint256 leafAt, uint256 core, uint256 preparation, bytes32 condition)
        private
        view
        returns (uint256)
    {
        unchecked {
            uint256 position = _positionOf(work, leafAt);
            address committer = address(uint160(_load(preparation) >> 96));
            bytes32 required = bytes32(_load(preparation + 20));
            if (committer != msg.sender) revert WrongCommitter(position, committer);
            if (required != condition) revert WrongCondition(position, required);
            work.prepared |= 1 << position;
            work.preparedHash = keccak256(abi.encode(work.preparedHash, core));
            return uint256(keccak256(abi.encodePacked(core, committer, required)));
        }
    }

    /// @dev How many bytes the calls that begin at `cursor` take.
    function _callsBytes(uint256 position, uint256 cursor, uint256 end) internal view returns (uint256) {
        unchecked {
            uint256 next = cursor + 1;
            uint256 count = _load(cursor) >> 248;
            if (count == 0) revert Malformed(position, "calls");
            for (uint256 i = 0; i < count; ++i) {
                if (address(uint160(_load(next) >> 96)) == address(this)) revert CallToLedger(position);
                next += CALL_HEAD_BYTES + (_load(next + 24) >> 240);
                // Each step is checked, as what lies behind the end could send us through megabytes of memory.
                if (next > end) revert Malformed(position, "length");
            }
            return next - cursor;
        }
    }

    /// @dev The digest of a round of one leaf.
    function _digestOf(bytes32 leaf, uint256 validUntil) internal view returns (bytes32) {
        bytes32 structHash = keccak256(abi.encode(ROUND_TYPE, keccak256(abi.encode(leaf)), validUntil));
        return keccak256(bytes.concat(hex"1901", domainSeparator(), structHash));
    }

    function _digest(Work memory work, bytes32 separator, uint256 validUntil) private pure returns (bytes32) {
        uint256 leavesHash = _hash(work.leaves, 32 * work.count);
        bytes32 structHash = keccak256(abi.encode(ROUND_TYPE, leavesHash, validUntil));
        return keccak256(abi.encodePacked(hex"1901", separator, structHash));
    }

    // Applying.

    function _applyLeaves(Work memory work, bytes calldata payload, bytes calldata auth) private {
        unchecked {
            uint256 plansEnd = work.plans + 32 * work.count;
            for (uint256 planAt = work.plans; planAt != plansEnd; planAt += 32) {
                uint256 plan = _load(planAt);
                if (plan != 0) _save(planAt, _apply(work, planAt - 32 * work.count, plan, payload, auth));
            }
            _finish(work, auth);
            _storePage(work);
        }
    }

    /// @dev Commits a transition, or skips it. Returns the word to be kept for it, nought when it is skipped.
    function _apply(Work memory work, uint256 leafAt, uint256 plan, bytes calldata payload, bytes calldata auth)
        private
        returns (uint256)
    {
        unchecked {
            _turnTo(work, leafAt, auth);
            if (plan >> 136 != work.page) _turnToPage(work, plan >> 136);
            uint256 intentBit = 1 << ((plan >> 128) & 0xff);
            if (work.pageBits & intentBit != 0) return _skip(leafAt, plan, SkipReason.IntentUsed, 0, 0);

            uint256 inputs = plan & 0xffffffff;
            uint256 missing;
            if ((plan >> 108) & 0xf != 0) {
                (inputs, missing) = _findReads(work, plan);
                if (missing != 0) return _skipFor(work, leafAt, plan, SkipReason.ReadUnavailable, missing);
            }

            uint256 body;
            (body, missing) = _spendInputs(work, plan, inputs);
            if (missing != 0) {
                _restoreInputs(work, inputs, missing);
                return _skipFor(work, leafAt, plan, SkipReason.InputUnavailable, missing);
            }

            bytes32 lacking = _admit(work, plan, body, auth);
            if (lacking != 0) {
                _restoreInputs(work, inputs, body);
                return _skip(leafAt, plan, SkipReason.ReadUnavailable, lacking, NOT_HERE);
            }
            if ((plan >> 120) & (FLAG_CALLS | _lockFlag()) != 0) {
                (bool isDone, uint256 number) = _run(work, leafAt, plan, body, payload);
                if (!isDone) {
                    _restoreInputs(work, inputs, body);
                    return _skipMore(leafAt, plan, number);
                }
            }
            // Last, when nothing can skip it any more: what is noted of its proof stays.
            _prove(work, leafAt, plan, auth);
            work.pageBits |= intentBit;
            work.isPageChanged = true;
            work.committed |= 1 << _positionOf(work, leafAt);
            return _wordToKeep((1 << ((plan >> 112) & 0xf)) - 1, plan, body);
        }
    }

    /// @dev Looks for all reads. Returns where the inputs begin, and where the first read stands that is not there.
    function _findReads(Work memory work, uint256 plan) private view returns (uint256 cursor, uint256 missing) {
        unchecked {
            cursor = plan & 0xffffffff;
            uint256 count = (plan >> 108) & 0xf;
            for (uint256 i = 0; i < count; ++i) {
                (uint256 place, bytes32 leaf, uint256 output, uint256 next) = _reference(work.leaves, cursor);
                if (_wordOf(work, place, leaf) & OUTPUTS & (1 << output) == 0) return (cursor, cursor);
                cursor = next;
            }
        }
    }

    /// @dev Spends one input after the other. Returns where the body begins, and where the first input stands that is
    /// not there; those before it are spent.
    function _spendInputs(Work memory work, uint256 plan, uint256 cursor) private returns (uint256, uint256) {
        unchecked {
            uint256 committed = _areInputsStates() ? work.committed : 0;
            for (uint256 left = (plan >> 116) & 0xf; left != 0; --left) {
                uint256 head = _load(cursor);
                uint256 place = head >> 248;
                if ((committed >> place) & 1 == 1) {
                    // What this call has made itself is spent in memory, and nobody else is asked.
                    uint256 wordAt = work.plans + 32 * place;
                    uint256 rest = _load(wordAt) ^ ((1 << ((head >> 240) & 0xff)) & _bitsOfOutputs());
                    // Of a word with these bits the difference is less exactly when the bit was set.
                    if (rest >= _load(wordAt)) return (cursor, cursor);
                    _save(wordAt, rest);
                    cursor += 2;
                } else {
                    (, bytes32 leaf, uint256 output, uint256 next) = _reference(work.leaves, cursor);
                    if (!_spend(work, place, leaf, output)) return (cursor, cursor);
                    cursor = next;
                }
            }
            return (cursor, 0);
        }
    }

    /// @dev A skip leaves nothing: gives back the inputs that stand from `cursor` to `end`.
    function _restoreInputs(Work memory work, uint256 cursor, uint256 end) private {
        while (cursor < end) {
            (uint256 place, bytes32 leaf, uint256 output, uint256 next) = _reference(work.leaves, cursor);
            _restore(work, place, leaf, output);
            cursor = next;
        }
    }

    function _skipFor(Work memory work, uint256 leafAt, uint256 plan, SkipReason reason, uint256 cursor)
        private
        returns (uint256)
    {
        (, bytes32 leaf, uint256 output,) = _reference(work.leaves, cursor);
        return _skip(leafAt, plan, reason, leaf, output);
    }

    function _skip(uint256 leafAt, uint256 plan, SkipReason reason, bytes32 stateLeaf, uint256 stateOutput)
        internal
        returns (uint256)
    {
        _beforeSkip(reason, stateLeaf, stateOutput);
        emit Skipped(bytes16(uint128(plan >> 128)), bytes32(_load(leafAt)), reason, stateLeaf, uint8(stateOutput));
        return 0;
    }

    /// @dev Runs the calls of a transition in a frame of their own. Says whether all succeeded, or which failed.
    function _run(Work memory work, uint256 leafAt, uint256 plan, uint256 body, bytes calldata payload)
        internal
        virtual
        returns (bool, uint256)
    {
        uint256 position = _positionOf(work, leafAt);
        uint256 start = body + _bodyBytes(plan);
        uint256 offset = start - work.payload;
        bytes calldata calls = payload[offset:offset + _callsBytes(position, start, work.end)];
        try this.runCalls(calls) {
            return (true, 0);
        } catch (bytes memory reason) {
            // The frame names the call that failed; what a target returns never gets here. Anything else means that
            // the frame had too little gas, and a transition must not be skipped because its submitter was mean.
            if (reason.length != 36 || bytes4(reason) != CallFailed.selector) revert TooLittleGas(position);
            return (false, _load(_addressOf(reason) + 36));
        }
    }

    /// @dev Calls with exactly this gas; when that is not there, the frame ends without naming a call. Return data is
    /// not copied, so that no target can make us pay for it.
    function _callExactly(address to, uint256 gasLimit, bytes memory input) internal returns (bool isDone) {
        // A call gets at most 63/64 of what is left once it is paid for, whatever it asks for (EIP-150).
        assembly ("memory-safe") {
            let left := gas()
            if lt(sub(left, shr(6, left)), add(gasLimit, CALL_OVERHEAD_GAS)) { revert(0, 0) }
            isDone := call(gasLimit, to, 0, add(input, 0x20), mload(input), 0, 0)
        }
    }

    // Storage.

    function _turnToPage(Work memory work, uint256 page) private {
        if (page == work.page) return;
        _storePage(work);
        work.page = page;
        work.pageBits = _used[page];
    }

    function _storePage(Work memory work) private {
        if (!work.isPageChanged) return;
        _used[work.page] = work.pageBits;
        work.isPageChanged = false;
    }

    /// @dev What this call has made and not spent comes to stay.
    function _storeStates(Work memory work) private {
        unchecked {
            uint256 leafEnd = work.plans;
            uint256 toWord = 32 * work.count;
            for (uint256 leafAt = work.leaves; leafAt != leafEnd; leafAt += 32) {
                uint256 word = _load(leafAt + toWord);
                if (word & OUTPUTS != 0) _unspent[bytes32(_load(leafAt))] = word;
            }
        }
    }

    /// @dev The word of a leaf: from memory when this call has committed it, else from storage.
    function _wordOf(Work memory work, uint256 place, bytes32 leaf) internal view returns (uint256) {
        unchecked {
            return (work.committed >> place) & 1 == 1 ? _load(work.plans + 32 * place) : _unspent[leaf];
        }
    }

    function _setWord(Work memory work, uint256 place, bytes32 leaf, uint256 word) internal {
        unchecked {
            if ((work.committed >> place) & 1 == 1) _save(work.plans + 32 * place, word);
            else _unspent[leaf] = word;
        }
    }

    // Small change.

    /// @dev Takes a reference apart: its place in the payload, its leaf, its output, and where the next one begins.
    function _reference(uint256 leaves, uint256 cursor)
        internal
        pure
        returns (uint256 place, bytes32 leaf, uint256 output, uint256 next)
    {
        unchecked {
            uint256 head = _load(cursor);
            place = head >> 248;
            output = (head >> 240) & 0xff;
            if (place == NOT_HERE) return (place, bytes32(_load(cursor + 2)), output, cursor + 34);
            return (place, bytes32(_load(leaves + 32 * place)), output, cursor + 2);
        }
    }

    function _positionOf(Work memory work, uint256 leafAt) internal pure returns (uint256) {
        unchecked {
            return (leafAt - work.leaves) >> 5;
        }
    }

    function _bodyBytes(uint256 plan) internal pure returns (uint256) {
        unchecked {
            if ((plan >> 120) & FLAG_BODY != 0) return 32;
            return 32 * (((plan >> 112) & 0xf) + ((plan >> 104) & 0xf));
        }
    }

    function _separatorNow() private view returns (bytes32) {
        return keccak256(abi.encode(DOMAIN_TYPE, keccak256("Rota"), keccak256("1"), block.chainid, address(this)));
    }

    /// @dev Writes the log from where the payload lies: its data is the mask, an offset, a length and the payload.
    function _logRound(Work memory work, bytes32 digest, uint256 length) private {
        uint256 start = work.payload - 96;
        uint256 size = 96 + ((length + 31) & ~uint256(31));
        _save(start, work.committed);
        _save(start + 32, 64);
        _save(start + 64, length);
        bytes32 topic = ROUND_TOPIC;
        assembly ("memory-safe") {
            log2(start, size, topic, digest)
        }
    }

    function _load(uint256 cursor) internal pure returns (uint256 word) {
        assembly ("memory-safe") {
            word := mload(cursor)
        }
    }

    function _save(uint256 cursor, uint256 word) internal pure {
        assembly ("memory-safe") {
            mstore(cursor, word)
        }
    }

    function _saveByte(uint256 cursor, uint256 value) private pure {
        assembly ("memory-safe") {
            mstore8(cursor, value)
        }
    }

    function _hash(uint256 cursor, uint256 size) internal pure returns (uint256 digest) {
        assembly ("memory-safe") {
            digest := keccak256(cursor, size)
        }
    }

    function _allocate(uint256 size) internal pure returns (uint256 cursor) {
        assembly ("memory-safe") {
            cursor := mload(0x40)
            mstore(0x40, add(cursor, size))
        }
    }

    function _addressOf(bytes memory content) private pure returns (uint256 cursor) {
        assembly ("memory-safe") {
            cursor := content
        }
    }
}
