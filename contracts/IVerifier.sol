// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Checks the zero-knowledge proof of one transition
interface IVerifier {
    /// @notice Whether a proof shows that this transition keeps the rules of its domain.
    /// @param binding The hash of the transition's leaf and the proof's validity. The proof must have it as a public
    /// input, reduced to the field: it stands for everything that the circuit does not look into, so that nothing of
    /// it can be exchanged
    /// @param members The commitments of the states that are read: the inputs are among them, and nobody sees which
    /// @param nullifiers One for each input
    /// @param outputs The commitments of the states that are made
    /// @param proof The proof itself
    function verify(
        bytes32 binding,
        bytes32[] calldata members,
        bytes32[] calldata nullifiers,
        bytes32[] calldata outputs,
        bytes calldata proof
    ) external view returns (bool);
}
