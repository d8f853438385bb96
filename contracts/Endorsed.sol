// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {StateLedger} from "./StateLedger.sol";

/// @title A ledger whose rounds are signed by k of n endorsers
/// @notice A notary is one of one; a privacy group is all of its members, or k of them.
///
/// @dev The set is kept as one hash in the code, so that no storage is read. `auth` spells the set out again, in its
/// order: of those who signed, their signatures, of the others, their addresses. What is recovered and what is given
/// must hash to the same set, so that nobody can sign twice or for another.
///
///     auth = signer mask u32 | per endorser in set order: signature 64 or address 20
///
/// Bit i of the mask stands for endorser i. A signature is r, then s with the parity of the point as its highest bit
/// (EIP-2098). There is one `auth` for a set of signatures: s is in the lower half, and no byte may be left over.
contract Endorsed is StateLedger {
    /// @notice There are 1 to 32 endorsers.
    error WrongEndorserCount(uint256 count);

    /// @notice An endorser must not be the address zero, which a failed recovery yields.
    error ZeroEndorser(uint256 number);

    /// @notice An endorser must be in the set once.
    error RepeatedEndorser(uint256 number);

    /// @notice The threshold is from 1 to the number of endorsers.
    error WrongThreshold(uint256 threshold, uint256 count);

    /// @notice `auth` has another length than its mask asks for.
    error WrongAuthLength(uint256 length, uint256 required);

    /// @notice The mask names signers that are not in the set.
    error UnknownSigner(uint256 mask);

    /// @notice Too few endorsers have signed.
    error TooFewSignatures(uint256 count, uint256 threshold);

    /// @notice The s of a signature must be in the lower half of the curve's order.
    error HighSignature(uint256 number);

    /// @notice A signature is not that of its endorser for this digest, or an address is not that of the set.
    error NotEndorsed(bytes32 digest);

    uint256 private constant ENDORSERS_MAX = 32;
    uint256 private constant HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0;

    bytes32 private immutable _policy;
    uint256 private immutable _endorserCount;
    uint256 private immutable _threshold;

    /// @param endorsers The set, in an order that stays
    /// @param threshold How many of them have to sign a round
    constructor(address[] memory endorsers, uint256 threshold) {
        uint256 count = endorsers.length;
        if (count == 0 || count > ENDORSERS_MAX) revert WrongEndorserCount(count);
        if (threshold == 0 || threshold > count) revert WrongThreshold(threshold, count);
        for (uint256 i = 0; i < count; ++i) {
            if (endorsers[i] == address(0)) revert ZeroEndorser(i);
            for (uint256 j = 0; j < i; ++j) {
                if (endorsers[i] == endorsers[j]) revert RepeatedEndorser(i);
            }
        }
        _policy = keccak256(abi.encodePacked(endorsers));
        _endorserCount = count;
        _threshold = threshold;
    }

    /// @notice The policy of this ledger.
    /// @return setHash The hash of the endorsers' addresses, each padded to a word, in set order
    /// @return endorserCount How many there are
    /// @return threshold How many of them have to sign a round
    function policy() external view returns (bytes32 setHash, uint256 endorserCount, uint256 threshold) {
        return (_policy, _endorserCount, _threshold);
    }

    function _authorise(bytes32 digest, bytes calldata auth) internal view virtual override {
        unchecked {
            uint256 count = _endorserCount;
            uint256 mask = _maskOf(auth, count);
            uint256 set = _allocate(32 * count);
            uint256 cursor;
            assembly ("memory-safe") {
                cursor := add(auth.offset, 4)
            }
            for (uint256 i = 0; i < count; ++i) {
                uint256 head = _loadCall(cursor);
                if ((mask >> i) & 1 == 1) {
                    uint256 tail = _loadCall(cursor + 32);
                    uint256 s = tail << 1 >> 1;
                    if (s > HALF_ORDER) revert HighSignature(i);
                    address signer = ecrecover(digest, uint8(27 + (tail >> 255)), bytes32(head), bytes32(s));
                    _save(set + 32 * i, uint160(signer));
                    cursor += 64;
                } else {
                    _save(set + 32 * i, head >> 96);
                    cursor += 20;
                }
            }
            if (bytes32(_hash(set, 32 * count)) != _policy) revert NotEndorsed(digest);
        }
    }

    /// @dev Who signed, once it is clear that `auth` holds all that this says.
    function _maskOf(bytes calldata auth, uint256 count) private view returns (uint256 mask) {
        unchecked {
            uint256 offset;
            assembly ("memory-safe") {
                offset := auth.offset
            }
            // What is missing of a mask is read as zero or as other call data; the length then tells.
            mask = _loadCall(offset) >> 224;
            if (mask >> count != 0) revert UnknownSigner(mask);
            uint256 signers = 0;
            for (uint256 left = mask; left != 0; left &= left - 1) ++signers;
            if (signers < _threshold) revert TooFewSignatures(signers, _threshold);
            uint256 required = 4 + 64 * signers + 20 * (count - signers);
            if (auth.length != required) revert WrongAuthLength(auth.length, required);
        }
    }

    function _areInputsStates() internal pure override returns (bool) {
        return true;
    }

    function _spend(Work memory, uint256, bytes32 leaf, uint256 output) internal override returns (bool) {
        uint256 word = _unspent[leaf];
        uint256 rest = word & ~(1 << output);
        if (rest == word) return false;
        _unspent[leaf] = rest;
        return true;
    }

    function _restore(Work memory work, uint256 place, bytes32 leaf, uint256 output) internal override {
        _setWord(work, place, leaf, _wordOf(work, place, leaf) | (1 << output));
    }

    /// @dev Only the bits of the outputs: when the last is spent the word is zero, and its place is given back.
    function _wordToKeep(uint256 outputs, uint256, uint256) internal pure override returns (uint256) {
        return outputs;
    }

    function _loadCall(uint256 cursor) private pure returns (uint256 word) {
        assembly ("memory-safe") {
            word := calldataload(cursor)
        }
    }
}
