// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title A hook for tests: does as it is told, and remembers how often it ran
contract Hook {
    struct PreparedTransaction {
        address contractAddress;
        bytes encodedCall;
    }

    event PenteExternalCall(address indexed contractAddress, bytes encodedCall);

    uint256 public runs;
    uint256 public moved;
    uint256 public limit = type(uint256).max;
    string public refusal;
    bytes public lastCall;
    address public redirect;

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

    function _run(uint256 amount, PreparedTransaction calldata prepared) private {
        require(bytes(refusal).length == 0, refusal);
        ++runs;
        moved += amount;
        require(moved <= limit, "the limit is reached");
        lastCall = prepared.encodedCall;
        emit PenteExternalCall(redirect == address(0) ? prepared.contractAddress : redirect, prepared.encodedCall);
    }
}
