// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IProofVerifier} from "../IProofVerifier.sol";

/// @title Stands for a verifier of zero-knowledge proofs: the first word of a proof is the hash of all that it binds
/// @dev Shifted by a bit, as a real proof has numbers of a field below 2^254 there
contract TestVerifier is IProofVerifier {
    uint256 private immutable _inputs;

    /// @param inputs How many public inputs the circuit has
    constructor(uint256 inputs) {
        _inputs = inputs;
    }

    /// @inheritdoc IProofVerifier
    function verify(uint256[] calldata inputs, bytes calldata proofs) external view returns (bool) {
        uint256 count = proofs.length / 256;
        if (count == 0 || proofs.length % 256 != 0 || inputs.length != count * _inputs) return false;
        for (uint256 i = 0; i < count; ++i) {
            bytes32 expected = keccak256(abi.encodePacked(inputs[i * _inputs:(i + 1) * _inputs])) >> 1;
            bytes calldata proof = proofs[256 * i:256 * (i + 1)];
            if (bytes32(proof[:32]) != expected) return false;
            if (keccak256(proof[32:]) != keccak256(new bytes(224))) return false;
        }
        return true;
    }
}
