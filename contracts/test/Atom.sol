// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Calls of several contracts that succeed together or not at all, as applications deploy it for a swap
contract Atom {
    /// @notice It was executed or cancelled before.
    error NotPending();

    /// @notice Only those that take part may cancel.
    error NotCanceller(address caller);

    struct Operation {
        address contractAddress;
        bytes callData;
    }

    enum Status {
        Pending,
        Executed,
        Cancelled
    }

    event AtomStatusChanged(Status status);

    Status public status;
    Operation[] private _operations;
    mapping(address account => bool may) private _mayCancel;

    /// @param operations What is called, in this order
    /// @param cancellers Who may cancel it
    constructor(Operation[] memory operations, address[] memory cancellers) {
        for (uint256 n = 0; n < operations.length; ++n) {
            _operations.push(operations[n]);
        }
        for (uint256 n = 0; n < cancellers.length; ++n) {
            _mayCancel[cancellers[n]] = true;
        }
    }

    /// @notice Make all calls.
    function execute() external {
        _end(Status.Executed);
        for (uint256 n = 0; n < _operations.length; ++n) {
            _call(_operations[n]);
        }
    }

    /// @notice Make other calls instead, such as those that cancel.
    /// @param operations What is called
    function cancel(Operation[] calldata operations) external {
        if (!_mayCancel[msg.sender]) revert NotCanceller(msg.sender);
        _end(Status.Cancelled);
        for (uint256 n = 0; n < operations.length; ++n) {
            _call(operations[n]);
        }
    }

    function _end(Status next) private {
        if (status != Status.Pending) revert NotPending();
        status = next;
        emit AtomStatusChanged(next);
    }

    function _call(Operation memory operation) private {
        (bool isDone, bytes memory output) = operation.contractAddress.call(operation.callData);
        if (!isDone) {
            assembly ("memory-safe") {
                revert(add(output, 0x20), mload(output))
            }
        }
    }
}
