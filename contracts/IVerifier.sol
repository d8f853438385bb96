// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Checks zero-knowledge proofs of one circuit
interface IVerifier {
    /// @notice Whether all of these proofs are right. They are checked together, as most of the work is shared.
    /// @param inputs The public inputs of the circuit in their order, proof by proof
    /// @param proofs 256 bytes each: A, B and C as the precompiled contracts take them
    function verify(uint256[] calldata inputs, bytes calldata proofs) external view returns (bool);
}
