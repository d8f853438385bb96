// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Endorsed} from "./Endorsed.sol";

/// @title An endorsed ledger with locks that have a public side
/// @notice A transition can leave two others behind on the ledger, one that spends a lock and one that cancels it, for a
/// delegate to commit. The delegate needs no signature and no node, may be a contract, and may be chosen later.
///
/// @dev A record of a lock is written by transitions only, so it has the permission of whoever permits rounds. It
/// names the leaves of the two transitions. What they do is settled by then. Only one of them can happen, because both
/// have the same intent id and the first removes the record. Until when is up to the record and not to signatures.
///
/// A transition names one lock at most, and the delegate that it presumes. When the lock has another one it is skipped,
/// so that what endorsers sign cannot overtake what a delegate does in public, or the other way round.
///
///     lock    = kind u8 | id 32 | presumed delegate 20
///               | set: delegate 20, expiresAt u64, leaf that spends 32, leaf that cancels 32
///               | delegate: delegate 20
///     kind    = 1 set | 2 delegate | 3 spent | 4 cancelled
///
/// *Set* makes a record, or replaces one; that there is none is the same as one whose delegate is zero. The others want
/// a record; the last two remove it. A delegate of zero is nobody. Who owns a lock is private, so that events and views
/// have zero for it.
contract Lockable is Endorsed {
    /// @notice What is known of a lock. `expiresAt` stands behind the fields that clients of such tokens read.
    struct LockInfo {
        address owner;
        address spender;
        bytes32 spendCommitment;
        bytes32 cancelCommitment;
        uint64 expiresAt;
    }

    /// @notice There is no such lock, or not any more.
    error LockNotActive(bytes32 lockId);

    /// @notice Only its delegate does this to a lock.
    error LockUnauthorized(bytes32 lockId, address spender, address caller);

    /// @notice From then on a lock can be cancelled only.
    error LockExpired(bytes32 lockId, uint256 expiresAt, uint256 time);

    /// @notice What a lock permits was not committed: the transition would have been skipped for this reason.
    /// @param stateLeaf As in `Skipped`
    /// @param stateOutput As in `Skipped`
    error NotCommitted(SkipReason reason, bytes32 stateLeaf, uint8 stateOutput);

    event LockCreated(
        bytes32 indexed lockId,
        address indexed owner,
        address indexed spender,
        bytes32 spendCommitment,
        bytes32 cancelCommitment,
        bytes data
    );
    event LockUpdated(
        bytes32 indexed lockId, address indexed owner, bytes32 spendCommitment, bytes32 cancelCommitment, bytes data
    );
    event LockDelegated(
        bytes32 indexed lockId, address indexed previousSpender, address indexed newSpender, bytes data
    );
    event LockSpent(bytes32 indexed lockId, address indexed spender, bytes data);
    event LockCancelled(bytes32 indexed lockId, address indexed spender, bytes data);

    /// @dev The first word of a record: 1 | expiresAt u64 | delegate 20. It is nought when there is no record.
    struct Record {
        uint256 head;
        bytes32 spendLeaf;
        bytes32 cancelLeaf;
    }

    uint256 private constant KIND_SET = 1;
    uint256 private constant KIND_DELEGATE = 2;
    uint256 private constant KIND_SPENT = 3;
    uint256 private constant KIND_CANCELLED = 4;
    uint256 private constant ENDING_BYTES = 53;
    uint256 private constant DELEGATING_BYTES = 73;
    uint256 private constant SETTING_BYTES = 145;

    uint256 private constant RECORDED = 1 << 224;
    uint256 private constant CALL_NUMBER_MAX = 0xff;

    /// @dev The digest of the round that a lock permits, while it is committed.
    bytes32 private transient _permitted;

    mapping(bytes32 lockId => Record record) private _locks;

    /// @param endorsers As for `Endorsed`
    /// @param threshold As for `Endorsed`
    constructor(address[] memory endorsers, uint256 threshold) Endorsed(endorsers, threshold) {}

    // What delegates do.

    /// @notice Does what a lock was prepared for. Its delegate does it, before the lock expires.
    /// @param lockId The lock
    /// @param spendArgs The transition that spends it, as a payload of this leaf alone
    /// @param data For the log
    function spendLock(bytes32 lockId, bytes calldata spendArgs, bytes calldata data) external whenNotCalling {
        uint256 head = _headFor(lockId);
        _requireDelegate(lockId, head);
        _requireUnexpired(lockId, head);
        bytes32 leaf = _locks[lockId].spendLeaf;
        delete _locks[lockId];
        emit LockSpent(lockId, msg.sender, data);
        _commitPermitted(leaf, spendArgs);
    }

    /// @notice Gives what is locked back to its owner. Its delegate does it, or after the lock has expired anybody.
    /// @param lockId The lock
    /// @param cancelArgs The transition that cancels it, as a payload of this leaf alone
    /// @param data For the log
    function cancelLock(bytes32 lockId, bytes calldata cancelArgs, bytes calldata data) external whenNotCalling {
        uint256 head = _headFor(lockId);
        if (block.timestamp <= _expiryIn(head)) _requireDelegate(lockId, head);
        bytes32 leaf = _locks[lockId].cancelLeaf;
        delete _locks[lockId];
        emit LockCancelled(lockId, msg.sender, data);
        _commitPermitted(leaf, cancelArgs);
    }

    /// @notice Gives a lock to another delegate. Its delegate does it, before the lock expires.
    /// @param lockId The lock
    /// @param newSpender Who may spend or cancel it from now on; zero for nobody
    /// @param data For the log
    function delegateLock(bytes32 lockId, bytes calldata, address newSpender, bytes calldata data)
        external
        whenNotCalling
    {
        uint256 head = _headFor(lockId);
        _requireDelegate(lockId, head);
        _requireUnexpired(lockId, head);
        _locks[lockId].head = _headOf(newSpender, _expiryIn(head));
        emit LockDelegated(lockId, msg.sender, newSpender, data);
    }

    // What anybody may know.

    /// @notice What is known of a lock; `LockNotActive` when there is none.
    /// @param lockId The lock
    function getLock(bytes32 lockId) external view whenNotCalling returns (LockInfo memory info) {
        uint256 head = _headFor(lockId);
        Record storage record = _locks[lockId];
        return LockInfo(address(0), _delegateIn(head), record.spendLeaf, record.cancelLeaf, uint64(_expiryIn(head)));
    }

    /// @notice Whether there is a lock, expired or not.
    /// @param lockId The lock
    function isLockActive(bytes32 lockId) external view whenNotCalling returns (bool) {
        return _locks[lockId].head != 0;
    }

    // What transitions do.

    function _lockFlag() internal pure override returns (uint256) {
        return FLAG_LOCK;
    }

    function _lockBytes(uint256 position, uint256 cursor) internal pure override returns (uint256) {
        uint256 kind = _load(cursor) >> 248;
        if (kind == KIND_SET) return SETTING_BYTES;
        if (kind == KIND_DELEGATE) return DELEGATING_BYTES;
        if (kind != KIND_SPENT && kind != KIND_CANCELLED) revert Malformed(position, "lock");
        return ENDING_BYTES;
    }

    /// @dev The lock is changed last, when nothing can skip the transition. While its calls run nobody else can change
    /// it. If it is not as presumed, its section's memory address is returned, which no number of a call is.
    function _run(Work memory work, uint256 leafAt, uint256 plan, uint256 body, bytes calldata payload)
        internal
        override
        returns (bool isDone, uint256 number)
    {
        unchecked {
            uint256 flags = plan >> 120;
            if (flags & FLAG_LOCK == 0) return super._run(work, leafAt, plan, body, payload);
            uint256 lock = body + _bodyBytes(plan);
            if (flags & FLAG_CALLS != 0) lock += _callsBytes(_positionOf(work, leafAt), lock, work.end);
            if (!_isLockAsPresumed(lock)) return (false, lock);
            if (flags & FLAG_CALLS != 0) {
                (isDone, number) = super._run(work, leafAt, plan, body, payload);
                if (!isDone) return (isDone, number);
            }
            _changeLock(lock);
            return (true, 0);
        }
    }

    function _skipMore(uint256 leafAt, uint256 plan, uint256 number) internal override returns (uint256) {
        if (number <= CALL_NUMBER_MAX) return super._skipMore(leafAt, plan, number);
        return _skip(leafAt, plan, SkipReason.LockChanged, bytes32(_load(number + 1)), 0);
    }

    /// @dev What a lock permits is committed by a call of the ledger to itself, as is what another contract carries out
    /// (`Carried`). Neither must be skipped.
    function _beforeSkip(SkipReason reason, bytes32 stateLeaf, uint256 stateOutput) internal view override {
        if (msg.sender == address(this)) revert NotCommitted(reason, stateLeaf, uint8(stateOutput));
    }

    /// @dev The endorsers signed the round that a lock permits when the lock was set. It has one leaf, and the ledger
    /// itself commits it.
    function _authorise(bytes32 digest, bytes calldata auth) internal view override {
        if (msg.sender != address(this) || digest != _permitted) super._authorise(digest, auth);
    }

    /// @dev Commits a transition that nobody signs any more. The payload has its leaf alone, in full, and no end.
    function _commitPermitted(bytes32 leaf, bytes calldata payload) private {
        _permitted = _digestOf(leaf, type(uint64).max);
        (uint256 committed,) = this.commit(payload, 0, payload[0:0]);
        _permitted = 0;
        if (committed != 1) revert NotCommitted(SkipReason.None, leaf, 0);
    }

    function _isLockAsPresumed(uint256 cursor) private view returns (bool) {
        unchecked {
            uint256 head = _locks[bytes32(_load(cursor + 1))].head;
            if (head == 0 && _load(cursor) >> 248 != KIND_SET) return false;
            return _delegateIn(head) == _addressAt(cursor + 33);
        }
    }

    function _changeLock(uint256 cursor) private {
        unchecked {
            uint256 kind = _load(cursor) >> 248;
            bytes32 lockId = bytes32(_load(cursor + 1));
            Record storage record = _locks[lockId];
            uint256 head = record.head;
            address presumed = _delegateIn(head);
            if (kind == KIND_SPENT) {
                delete _locks[lockId];
                emit LockSpent(lockId, presumed, "");
            } else if (kind == KIND_CANCELLED) {
                delete _locks[lockId];
                emit LockCancelled(lockId, presumed, "");
            } else {
                address delegate = _addressAt(cursor + ENDING_BYTES);
                uint256 expiresAt = _expiryIn(head);
                if (kind == KIND_SET) {
                    expiresAt = _load(cursor + DELEGATING_BYTES) >> 192;
                    bytes32 spendLeaf = bytes32(_load(cursor + DELEGATING_BYTES + 8));
                    bytes32 cancelLeaf = bytes32(_load(cursor + DELEGATING_BYTES + 40));
                    (record.spendLeaf, record.cancelLeaf) = (spendLeaf, cancelLeaf);
                    if (head == 0) emit LockCreated(lockId, address(0), delegate, spendLeaf, cancelLeaf, "");
                    else emit LockUpdated(lockId, address(0), spendLeaf, cancelLeaf, "");
                }
                record.head = _headOf(delegate, expiresAt);
                if (head != 0 && delegate != presumed) emit LockDelegated(lockId, presumed, delegate, "");
            }
        }
    }

    // Small change.

    function _headFor(bytes32 lockId) private view returns (uint256 head) {
        head = _locks[lockId].head;
        if (head == 0) revert LockNotActive(lockId);
    }

    function _requireDelegate(bytes32 lockId, uint256 head) private view {
        if (msg.sender != _delegateIn(head)) revert LockUnauthorized(lockId, _delegateIn(head), msg.sender);
    }

    function _requireUnexpired(bytes32 lockId, uint256 head) private view {
        if (block.timestamp > _expiryIn(head)) revert LockExpired(lockId, _expiryIn(head), block.timestamp);
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

    function _addressAt(uint256 cursor) private pure returns (address) {
        return address(uint160(_load(cursor) >> 96));
    }
}
