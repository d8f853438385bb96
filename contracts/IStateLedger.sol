// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title What other contracts need to know of a ledger of private states
interface IStateLedger {
    /// @notice A round was committed, in whole or in part.
    /// @param digest The EIP-712 digest of all its leaves and its validity
    /// @param committed Bit i is set when leaf i was committed by this call
    /// @param payload What was given, byte for byte
    event Round(bytes32 indexed digest, uint256 committed, bytes payload);

    /// @notice A transition could not be committed now. This is information and no verdict: anybody may submit the
    /// round again until it expires, and anybody can provoke a skip.
    /// @param intent The intent that the transition serves
    /// @param leaf The hash of the transition
    /// @param reason Why it was skipped
    /// @param stateLeaf The leaf that makes the state which was not available, or the id of the lock that is not as
    /// presumed; zero for the other reasons
    /// @param stateOutput That state's number among its leaf's outputs; for a failed call, the call's number
    event Skipped(
        bytes16 indexed intent, bytes32 indexed leaf, SkipReason reason, bytes32 stateLeaf, uint8 stateOutput
    );

    /// @notice Why a transition was skipped; zero stands for one that was not.
    enum SkipReason {
        None,
        IntentUsed,
        ReadUnavailable,
        InputUnavailable,
        CallFailed,
        LockChanged
    }

    /// @notice Commit a round, or a part of it.
    /// @param payload The round: its validity and its leaves, those that are left out as bare hashes
    /// @param condition What prepared transitions were made dependent on; zero when there are none
    /// @param auth Who permits it: signatures or proofs, as the ledger's policy wants them
    /// @return committed Bit i is set when leaf i was committed
    /// @return preparedHash The hash chain of the cores of all prepared transitions, zero unless all were committed
    function commit(bytes calldata payload, bytes32 condition, bytes calldata auth)
        external
        returns (uint256 committed, bytes32 preparedHash);
}
