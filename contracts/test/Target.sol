// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IStateLedger} from "../IStateLedger.sol";

/// @title What a transition's call may meet
contract Target {
    error Refused();

    uint256 public count;
    uint256 public gasSeen;
    address public caller;
    bool public isBroken;
    bytes public returned;

    /// @notice Note how much gas there was at the very beginning, and who called.
    function note() external {
        uint256 left = gasleft();
        gasSeen = left;
        caller = msg.sender;
        ++count;
    }

    /// @notice Succeed, unless the target was broken.
    function touch() external {
        if (isBroken) revert Refused();
        ++count;
    }

    /// @notice Make `touch` fail from now on, or succeed again.
    /// @param isBroken_ Whether it fails
    function setBroken(bool isBroken_) external {
        isBroken = isBroken_;
    }

    /// @notice Always fail.
    function fail() external pure {
        revert Refused();
    }

    /// @notice Fail with data that looks like what the ledger says of its own frames.
    /// @param reason What to revert with
    function failWith(bytes calldata reason) external pure {
        bytes memory copy = reason;
        assembly ("memory-safe") {
            revert(add(copy, 0x20), mload(copy))
        }
    }

    /// @notice Use up all gas.
    function burn() external pure {
        while (true) {}
    }

    /// @notice Return more than anybody wants to copy.
    /// @param size How many bytes
    function shout(uint256 size) external pure {
        assembly ("memory-safe") {
            return(0, size)
        }
    }

    /// @notice Call somebody and fail as it fails; whoever tries to get back into the ledger does it with this.
    /// @param to Whom to call
    /// @param input What to call it with
    function forward(address to, bytes calldata input) external {
        (bool isDone, bytes memory output) = to.call(input);
        returned = output;
        if (!isDone) {
            assembly ("memory-safe") {
                revert(add(output, 0x20), mload(output))
            }
        }
    }

    /// @notice Commit two rounds in one transaction.
    function commitTwice(
        IStateLedger ledger,
        bytes calldata first,
        bytes calldata firstAuth,
        bytes calldata second,
        bytes calldata secondAuth
    ) external returns (uint256, uint256) {
        (uint256 a,) = ledger.commit(first, 0, firstAuth);
        (uint256 b,) = ledger.commit(second, 0, secondAuth);
        return (a, b);
    }
}
