// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title A hook for tests: does as it is told, and remembers how often it ran
contract Hook {
    struct PreparedTransaction {
        address contractAddress;
        bytes encodedCall;
    }

    event PenteExternalCall(address indexed contractAddress, bytes encodedCall);

    /// @notice What a lock is for.
    struct UnlockRecipient {
        address to;
        uint256 amount;
    }

    uint256 public runs;
    uint256 public moved;
    uint256 public limit = type(uint256).max;
    string public refusal;
    bytes public lastCall;
    address public redirect;

    /// @notice Locks that a delegate ended: how often it was told, by whom the last one, and what the recipients have.
    uint256 public delegateUnlocks;
    address public lastDelegate;
    mapping(address account => uint256 amount) public unlockedFor;

    constructor() {}

    /// @notice What it refuses with from now on; nothing for an empty text.
    function refuse(string calldata reason) external {
        refusal = reason;
    }

    /// @notice How much may move in all.
    function setLimit(uint256 limit_) external {
        limit = limit_;
    }

    /// @notice Another contract that is called in place of the token's.
    function callInstead(address other) external {
        redirect = other;
    }

    /// @notice Makes a call that somebody else was given.
    function replay(address to, bytes calldata call) external {
        ++runs;
        emit PenteExternalCall(to, call);
    }

    /// @notice As `INotoHooks`.
    function onMint(address, address, uint256 amount, bytes calldata, PreparedTransaction calldata prepared) external {
        _run(amount, prepared);
    }

    /// @notice As `INotoHooks`.
    function onTransfer(
        address,
        address,
        address,
        uint256 amount,
        bytes calldata,
        PreparedTransaction calldata prepared
    ) external {
        _run(amount, prepared);
    }

    /// @notice As `INotoHooks`.
    function onBurn(address, address, uint256 amount, bytes calldata, PreparedTransaction calldata prepared) external {
        _run(amount, prepared);
    }

    /// @notice As `INotoHooks`.
    function onLock(
        address,
        bytes32,
        address,
        uint256 amount,
        bytes calldata,
        PreparedTransaction calldata prepared
    ) external {
        _run(amount, prepared);
    }

    /// @notice As `INotoHooks`.
    function onUnlock(
        address,
        bytes32,
        UnlockRecipient[] calldata recipients,
        bytes calldata,
        PreparedTransaction calldata prepared
    ) external {
        _run(_sum(recipients), prepared);
    }

    /// @notice As `INotoHooks`.
    function onPrepareUnlock(
        address,
        bytes32,
        UnlockRecipient[] calldata recipients,
        bytes calldata,
        PreparedTransaction calldata prepared
    ) external {
        _run(_sum(recipients), prepared);
    }

    /// @notice As `INotoHooks`.
    function onCreateTransferLock(
        address,
        bytes32,
        address,
        uint256,
        UnlockRecipient[] calldata recipients,
        bytes calldata,
        PreparedTransaction calldata prepared
    ) external {
        _run(_sum(recipients), prepared);
    }

    /// @notice As `INotoHooks`.
    function onDelegateLock(address, bytes32, address, PreparedTransaction calldata prepared) external {
        _run(0, prepared);
    }

    /// @notice As `INotoHooks`: a delegate has ended a lock.
    function handleDelegateUnlock(address sender, bytes32, UnlockRecipient[] calldata recipients, bytes calldata)
        external
    {
        require(bytes(refusal).length == 0, refusal);
        ++delegateUnlocks;
        lastDelegate = sender;
        for (uint256 n = 0; n < recipients.length; ++n) {
            unlockedFor[recipients[n].to] += recipients[n].amount;
        }
    }

    function _sum(UnlockRecipient[] calldata recipients) private pure returns (uint256 sum) {
        for (uint256 n = 0; n < recipients.length; ++n) {
            sum += recipients[n].amount;
        }
    }

    function _run(uint256 amount, PreparedTransaction calldata prepared) private {
        require(bytes(refusal).length == 0, refusal);
        ++runs;
        moved += amount;
        require(moved <= limit, "the limit is reached");
        lastCall = prepared.encodedCall;
        emit PenteExternalCall(redirect == address(0) ? prepared.contractAddress : redirect, prepared.encodedCall);
    }
}
