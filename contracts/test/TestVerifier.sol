// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IVerifier} from "../IVerifier.sol";

/// @title Stands for a verifier of zero-knowledge proofs: a proof is the hash of all that it has to bind
contract TestVerifier is IVerifier {
    /// @inheritdoc IVerifier
    function verify(
        bytes32 binding,
        bytes32[] calldata members,
        bytes32[] calldata nullifiers,
        bytes32[] calldata outputs,
        bytes calldata proof
    ) external pure returns (bool) {
        bytes32 expected = keccak256(abi.encode(binding, members, nullifiers, outputs));
        return proof.length == 32 && bytes32(proof) == expected;
    }
}
