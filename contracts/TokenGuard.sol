// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title The hook of a notary token with an allow-list and a daily limit, to be used inside a privacy group
/// @notice The notary's node calls a function of it for each operation of the token. It carries the operation out, or
/// reverts with a reason that the user gets.
///
/// @dev A hook emits `PenteExternalCall` with exactly the call that it was given. Both are committed or neither: when the
/// token's transition cannot be committed, what the hook records is not recorded either.
///
/// Who may call is for the hook to check. A private contract has no clock, so that the notary says when a day begins.
contract TokenGuard {
    /// @notice The call that commits the operation, and the ledger of the token, which takes it.
    struct PreparedTransaction {
        address contractAddress;
        bytes encodedCall;
    }

    /// @notice Who gets how much from a lock.
    struct UnlockRecipient {
        address to;
        uint256 amount;
    }

    /// @notice The group's ledger makes this call.
    event PenteExternalCall(address indexed contractAddress, bytes encodedCall);

    event Listed(address indexed account, bool isAllowed);
    event DayStarted(uint256 indexed day);
    event EndedByDelegate(bytes32 indexed lockId, address indexed delegate);

    /// @notice Who calls for the token, and who keeps the list.
    address public immutable notary;

    /// @notice How much an account may pay in a day.
    uint256 public immutable dailyLimit;

    /// @notice The token, once the notary has said which.
    address public token;

    uint256 public day;
    mapping(address account => bool isAllowed) public isAllowed;
    mapping(uint256 day => mapping(address account => uint256 amount)) public paidOn;

    /// @notice Who locked coins: they come back to this account, or go where it has them prepared to go.
    mapping(bytes32 lockId => address owner) public ownerOf;

    /// @notice Whether the payments of a lock were counted already, when it was prepared.
    mapping(bytes32 lockId => bool isPrepared) public isPrepared;

    modifier onlyNotary() {
        require(msg.sender == notary, "only the notary calls this");
        _;
    }

    /// @param notary_ Who calls for the token
    /// @param dailyLimit_ How much an account may pay in a day
    constructor(address notary_, uint256 dailyLimit_) {
        notary = notary_;
        dailyLimit = dailyLimit_;
    }

    // Of the notary.

    /// @notice From now on this is the token. Said once.
    /// @param token_ The token's ledger
    function setToken(address token_) external onlyNotary {
        require(token == address(0), "the token is known already");
        token = token_;
    }

    /// @notice An account may hold the token, or not any more.
    /// @param account Whose address
    /// @param allowed Whether it may
    function list(address account, bool allowed) external onlyNotary {
        isAllowed[account] = allowed;
        emit Listed(account, allowed);
    }

    /// @notice Another day begins, with the whole limit for everybody.
    function startDay() external onlyNotary {
        emit DayStarted(++day);
    }

    // Of the token (`INotoHooks`).

    /// @notice New coins, which only the notary makes.
    function onMint(address sender, address to, uint256, bytes calldata, PreparedTransaction calldata prepared)
        external
        onlyNotary
    {
        require(sender == notary, "only the notary mints");
        require(isAllowed[to], "the receiver is not on the list");
        _carryOut(prepared);
    }

    /// @notice A payment.
    function onTransfer(
        address sender,
        address from,
        address to,
        uint256 amount,
        bytes calldata,
        PreparedTransaction calldata prepared
    ) external onlyNotary {
        require(sender == from || sender == notary, "only the owner or the notary pays");
        _pay(from, to, amount);
        _carryOut(prepared);
    }

    /// @notice Coins that end.
    function onBurn(address, address from, uint256, bytes calldata, PreparedTransaction calldata prepared)
        external
        onlyNotary
    {
        require(isAllowed[from], "the owner is not on the list");
        _carryOut(prepared);
    }

    // Of the token's locks. A payment counts when it is prepared, because a delegate then makes it without the hook.

    /// @notice Coins are locked, for nobody yet.
    function onLock(
        address sender,
        bytes32 lockId,
        address from,
        uint256,
        bytes calldata,
        PreparedTransaction calldata prepared
    ) external onlyNotary {
        _lock(sender, lockId, from);
        _carryOut(prepared);
    }

    /// @notice Coins are locked for these recipients.
    function onCreateTransferLock(
        address sender,
        bytes32 lockId,
        address from,
        uint256,
        UnlockRecipient[] calldata recipients,
        bytes calldata,
        PreparedTransaction calldata prepared
    ) external onlyNotary {
        _lock(sender, lockId, from);
        _prepare(lockId, recipients);
        _carryOut(prepared);
    }

    /// @notice What is locked becomes for these recipients.
    function onPrepareUnlock(
        address,
        bytes32 lockId,
        UnlockRecipient[] calldata recipients,
        bytes calldata,
        PreparedTransaction calldata prepared
    ) external onlyNotary {
        _prepare(lockId, recipients);
        _carryOut(prepared);
    }

    /// @notice A lock gets a delegate, who can end it in public as it was prepared, or give it back.
    function onDelegateLock(address, bytes32, address, PreparedTransaction calldata prepared) external onlyNotary {
        _carryOut(prepared);
    }

    /// @notice The owner ends a lock: pays from it, has it do what it was prepared for, or takes it back.
    function onUnlock(
        address,
        bytes32 lockId,
        UnlockRecipient[] calldata recipients,
        bytes calldata,
        PreparedTransaction calldata prepared
    ) external onlyNotary {
        if (!isPrepared[lockId]) _payAll(ownerOf[lockId], recipients);
        _carryOut(prepared);
    }

    /// @notice A delegate has ended a lock. It is too late to refuse that: it was decided when the lock was prepared.
    function handleDelegateUnlock(address sender, bytes32 lockId, UnlockRecipient[] calldata, bytes calldata)
        external
        onlyNotary
    {
        emit EndedByDelegate(lockId, sender);
    }

    function _lock(address sender, bytes32 lockId, address from) private {
        require(sender == from || sender == notary, "only the owner or the notary locks");
        require(isAllowed[from], "the owner is not on the list");
        ownerOf[lockId] = from;
    }

    function _prepare(bytes32 lockId, UnlockRecipient[] calldata recipients) private {
        isPrepared[lockId] = true;
        _payAll(ownerOf[lockId], recipients);
    }

    function _payAll(address from, UnlockRecipient[] calldata recipients) private {
        for (uint256 n = 0; n < recipients.length; ++n) {
            if (recipients[n].to != from) _pay(from, recipients[n].to, recipients[n].amount);
        }
    }

    function _pay(address from, address to, uint256 amount) private {
        require(isAllowed[from], "the payer is not on the list");
        require(isAllowed[to], "the receiver is not on the list");
        uint256 paid = paidOn[day][from] + amount;
        require(paid <= dailyLimit, "the payment exceeds the daily limit");
        paidOn[day][from] = paid;
    }

    function _carryOut(PreparedTransaction calldata prepared) private {
        require(prepared.contractAddress == token, "this hook is of another token");
        emit PenteExternalCall(prepared.contractAddress, prepared.encodedCall);
    }
}
