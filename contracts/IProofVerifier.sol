// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Checks proofs of one circuit, several at once
interface IProofVerifier {
    /// @notice Whether all of these are proofs for their public inputs.
    /// @dev It does not revert, whatever it is given. A point that is none costs all gas but a 64th part.
    /// @param inputs The public inputs of all proofs, proof by proof, as many for each as the circuit has
    /// @param proofs 256 bytes each: A, B and C as the precompiles of EIP-196 and EIP-197 take them
    function verify(uint256[] calldata inputs, bytes calldata proofs) external view returns (bool);
}
