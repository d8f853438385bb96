// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IProofVerifier} from "./IProofVerifier.sol";

/// @title Checks Groth16 proofs over BN254
/// @notice What is generated for each circuit is its key; all the rest is here.
///
/// @dev One proof (A, B, C) with the public inputs x holds when
///
///     e(A, B) = e(alpha, beta) * e(K0 + x1 K1 + x2 K2 + ..., gamma) * e(C, delta)
///
/// Several proofs are checked as the product of their equations, each taken to the power of a multiplier of its own:
/// then alpha, gamma and delta are paired once for all of them, and the K are multiplied once. The first multiplier is
/// 1 and the others are 128 bits of a hash of all that is given, so nobody can choose proofs that make up for one
/// another.
abstract contract Groth16 is IProofVerifier {
    /// @dev The order of the groups. A public input is below it: else one statement had many forms.
    uint256 private constant ORDER = 0x30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001;
    /// @dev The modulus of the coordinates.
    uint256 private constant MODULUS = 0x30644e72e131a029b85045b68181585d97816a916871ca8d3c208c16d87cfd47;

    uint256 private constant PROOF_BYTES = 256;
    uint256 private constant PAIR_BYTES = 192;
    /// @dev alpha, beta, gamma and delta stand before the K in a key.
    uint256 private constant KEY_HEAD_BYTES = 448;
    uint256 private constant POINT_BYTES = 64;

    uint256 private constant ADD = 6;
    uint256 private constant MULTIPLY = 7;
    uint256 private constant PAIR = 8;

    /// @inheritdoc IProofVerifier
    function verify(uint256[] calldata inputs, bytes calldata proofs) external view returns (bool) {
        bytes memory key = _key();
        uint256 width = (key.length - KEY_HEAD_BYTES) / POINT_BYTES - 1;
        uint256 count = proofs.length / PROOF_BYTES;
        if (count == 0 || proofs.length % PROOF_BYTES != 0 || inputs.length != count * width) return false;

        uint256[] memory multipliers = _multipliers(inputs, proofs, count);
        (bool isRight, uint256[] memory factors) = _factors(inputs, multipliers, width);
        if (!isRight) return false;
        bytes memory pairs = new bytes((count + 3) * PAIR_BYTES);
        isRight = _pairProofs(pairs, multipliers, proofs);
        return isRight && _pairKey(pairs, key, factors, count) && _isProductOne(pairs);
    }

    /// @dev alpha 2 words, beta, gamma and delta 4 words each, then for 1 and for each public input a point of 2 words.
    function _key() internal pure virtual returns (bytes memory);

    function _multipliers(uint256[] calldata inputs, bytes calldata proofs, uint256 count)
        private
        pure
        returns (uint256[] memory multipliers)
    {
        multipliers = new uint256[](count);
        multipliers[0] = 1;
        if (count == 1) return multipliers;
        bytes32 seed = keccak256(abi.encode(inputs, proofs));
        for (uint256 i = 1; i < count; ++i) {
            multipliers[i] = uint128(uint256(keccak256(abi.encode(seed, i))));
        }
    }

    /// @dev What each point of the key is multiplied by: the sum over all proofs of multiplier times public input.
    function _factors(uint256[] calldata inputs, uint256[] memory multipliers, uint256 width)
        private
        pure
        returns (bool, uint256[] memory factors)
    {
        factors = new uint256[](width + 1);
        uint256 cursor = 0;
        for (uint256 i = 0; i < multipliers.length; ++i) {
            uint256 multiplier = multipliers[i];
            factors[0] = addmod(factors[0], multiplier, ORDER);
            for (uint256 j = 1; j <= width; ++j) {
                uint256 value = inputs[cursor++];
                if (value >= ORDER) return (false, factors);
                factors[j] = addmod(factors[j], mulmod(value, multiplier, ORDER), ORDER);
            }
        }
        return (true, factors);
    }

    /// @dev The pairs (-multiplier A, B), and where the last pair will be the sum of all multiplier C.
    function _pairProofs(bytes memory pairs, uint256[] memory multipliers, bytes calldata proofs)
        private
        view
        returns (bool isRight)
    {
        uint256 count = multipliers.length;
        uint256 pair = _start(pairs);
        uint256 last = pair + (count + 2) * PAIR_BYTES;
        isRight = true;
        for (uint256 i = 0; i < count; ++i) {
            bytes calldata proof = proofs[i * PROOF_BYTES:(i + 1) * PROOF_BYTES];
            assembly ("memory-safe") {
                calldatacopy(pair, proof.offset, 192)
            }
            uint256 x = uint256(bytes32(proof[192:224]));
            uint256 y = uint256(bytes32(proof[224:256]));
            if (i == 0) {
                isRight = _negate(pair);
                _store(last, x, y);
            } else {
                isRight = isRight && _multiply(pair, ORDER - multipliers[i]) && _addTo(last, x, y, multipliers[i]);
            }
            pair += PAIR_BYTES;
        }
    }

    /// @dev The pairs of alpha, of the sum of the key's points, and of what `_pairProofs` has summed up.
    function _pairKey(bytes memory pairs, bytes memory key, uint256[] memory factors, uint256 count)
        private
        view
        returns (bool isRight)
    {
        uint256 pair = _start(pairs) + count * PAIR_BYTES;
        uint256 source = _start(key);
        assembly ("memory-safe") {
            mcopy(pair, source, 192)
            mcopy(add(pair, 256), add(source, 192), 128)
            mcopy(add(pair, 448), add(source, 320), 128)
        }
        isRight = factors[0] == 1 || _multiply(pair, factors[0]);
        pair += PAIR_BYTES;
        source += KEY_HEAD_BYTES;
        for (uint256 j = 0; j < factors.length; ++j) {
            // Most slots that are not used are zero, and zero times a point is nothing.
            if (factors[j] != 0) isRight = isRight && _addTo(pair, _load(source), _load(source + 32), factors[j]);
            source += POINT_BYTES;
        }
    }

    function _isProductOne(bytes memory pairs) private view returns (bool isOne) {
        assembly ("memory-safe") {
            let isDone := staticcall(gas(), PAIR, add(pairs, 32), mload(pairs), 0, 32)
            isOne := and(isDone, eq(mload(0), 1))
        }
    }

    /// @dev Zero, (0, 0), is refused: its negative is no coordinate. No honest proof has it.
    function _negate(uint256 point) private pure returns (bool) {
        uint256 y = _load(point + 32);
        if (y >= MODULUS) return false;
        _store(point, _load(point), MODULUS - y);
        return true;
    }

    function _multiply(uint256 point, uint256 factor) private view returns (bool isDone) {
        assembly ("memory-safe") {
            let work := mload(0x40)
            mcopy(work, point, 64)
            mstore(add(work, 64), factor)
            isDone := staticcall(gas(), MULTIPLY, work, 96, point, 64)
        }
    }

    /// @dev Adds a multiple of a point to the point that stands in memory at `sum`.
    function _addTo(uint256 sum, uint256 x, uint256 y, uint256 factor) private view returns (bool isDone) {
        assembly ("memory-safe") {
            let work := mload(0x40)
            mcopy(work, sum, 64)
            mstore(add(work, 64), x)
            mstore(add(work, 96), y)
            mstore(add(work, 128), factor)
            isDone := 1
            if iszero(eq(factor, 1)) { isDone := staticcall(gas(), MULTIPLY, add(work, 64), 96, add(work, 64), 64) }
            if isDone { isDone := staticcall(gas(), ADD, work, 128, sum, 64) }
        }
    }

    function _start(bytes memory content) private pure returns (uint256 start) {
        assembly ("memory-safe") {
            start := add(content, 32)
        }
    }

    function _load(uint256 place) private pure returns (uint256 word) {
        assembly ("memory-safe") {
            word := mload(place)
        }
    }

    function _store(uint256 place, uint256 x, uint256 y) private pure {
        assembly ("memory-safe") {
            mstore(place, x)
            mstore(add(place, 32), y)
        }
    }
}
