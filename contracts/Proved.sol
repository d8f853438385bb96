// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IVerifier} from "./IVerifier.sol";
import {StateLedger} from "./StateLedger.sol";

/// @title A ledger whose transitions each carry a zero-knowledge proof
/// @notice Nobody signs a round: whoever has the proofs may commit it.
///
/// @dev The payload is that of every ledger. What differs is what its references mean.
///
/// A *read* names a state of the ledger, and here states are never cleared. The reads of a transition are the crowd in
/// which its inputs hide: the proof shows that each input is one of them, and not which.
///
/// An *input* is a nullifier: a reference FF, FF, nullifier 32. No state has the output number FF, so a leaf binds a
/// nullifier and no state can pass for one. It is marked with a word of its own that is never cleared.
///
/// The word that is kept for a transition has the bits of its outputs in its lowest 16 bits and the hash of its
/// body, outputs then info, in the others. So whoever reads a state can show its commitment: `auth` has the body of
/// the transition that made it.
///
///     auth  = per full leaf, in order: length u16 | proof
///     proof = validUntil u64 | per read: n u8, the n words of its maker's body | what the verifier gets
///
/// A leaf says nothing about time and the round's own validity is anybody's choice here, so each proof has one of its
/// own, which it binds. The proof of a transition that is skipped is not looked at.
contract Proved is StateLedger {
    /// @notice The verifier has no code.
    error NoVerifier(address verifier);

    /// @notice `auth` ends before, within or behind the proof of this leaf, or the number of leaves if it is too long.
    error MalformedAuth(uint256 position);

    /// @notice The proof was valid until then.
    error ProofExpired(uint256 position, uint256 validUntil, uint256 time);

    /// @notice What is given for a read is not the body of the transition that made it.
    error WrongMember(uint256 position, uint256 read);

    /// @notice The verifier refuses the proof.
    error WrongProof(uint256 position);

    uint256 private constant NULLIFIER = 0xff;

    /// @notice Checks the proofs.
    IVerifier public immutable verifier;

    mapping(bytes32 nullifier => uint256 mark) private _nullified;

    /// @param proofVerifier The contract that checks the proofs, for ever
    constructor(IVerifier proofVerifier) {
        if (address(proofVerifier).code.length == 0) revert NoVerifier(address(proofVerifier));
        verifier = proofVerifier;
    }

    /// @notice Whether a nullifier is marked, and by this its state is spent.
    /// @param nullifier The nullifier
    function isNullified(bytes32 nullifier) external view whenNotCalling returns (bool) {
        return _nullified[nullifier] != 0;
    }

    /// @dev Each transition is authorised by its own proof.
    function _authorise(bytes32, bytes calldata) internal view override {}

    function _turnTo(Work memory work, uint256 leafAt, bytes calldata auth) internal pure override {
        uint256 position = _positionOf(work, leafAt);
        uint256 start = work.proofEnd + 2;
        if (start > auth.length) revert MalformedAuth(position);
        work.position = position;
        work.proof = start;
        work.proofEnd = start + uint16(bytes2(auth[start - 2:start]));
        if (work.proofEnd > auth.length) revert MalformedAuth(position);
    }

    function _finish(Work memory work, bytes calldata auth) internal pure override {
        if (work.proofEnd != auth.length) revert MalformedAuth(work.count);
    }

    function _prove(Work memory work, uint256 leafAt, uint256 plan, bytes calldata auth) internal view override {
        uint256 position = work.position;
        if ((plan >> 120) & FLAG_BODY != 0) revert Malformed(position, "body");
        bytes calldata proof = auth[work.proof:work.proofEnd];
        if (proof.length < 8) revert MalformedAuth(position);
        uint256 validUntil = uint64(bytes8(proof[:8]));
        if (block.timestamp > validUntil) revert ProofExpired(position, validUntil, block.timestamp);

        uint256 cursor = plan & 0xffffffff;
        bytes32[] memory members = new bytes32[]((plan >> 108) & 0xf);
        proof = proof[8:];
        for (uint256 i = 0; i < members.length; ++i) {
            (uint256 place, bytes32 maker, uint256 output, uint256 next) = _reference(work.leaves, cursor);
            (members[i], proof) = _member(work, i, _wordOf(work, place, maker), output, proof);
            cursor = next;
        }
        bytes32[] memory nullifiers = new bytes32[]((plan >> 116) & 0xf);
        for (uint256 i = 0; i < nullifiers.length; ++i) {
            (, nullifiers[i],, cursor) = _reference(work.leaves, cursor);
        }
        bytes32[] memory outputs = new bytes32[]((plan >> 112) & 0xf);
        for (uint256 i = 0; i < outputs.length; ++i) {
            outputs[i] = bytes32(_load(cursor + 32 * i));
        }
        bytes32 binding = keccak256(abi.encode(_load(leafAt), validUntil));
        if (!verifier.verify(binding, members, nullifiers, outputs, proof)) revert WrongProof(position);
    }

    /// @dev The commitment of a state that is read, from the body of its maker; returns what follows that body.
    function _member(Work memory work, uint256 read, uint256 word, uint256 output, bytes calldata proof)
        private
        pure
        returns (bytes32, bytes calldata)
    {
        if (proof.length == 0) revert MalformedAuth(work.position);
        uint256 end = 1 + 32 * uint256(uint8(proof[0]));
        if (end > proof.length) revert MalformedAuth(work.position);
        bytes calldata body = proof[1:end];
        // An output that is there has its commitment in the body that was hashed, so the slice below is within it.
        if ((uint256(keccak256(body)) ^ word) >> 16 != 0) revert WrongMember(work.position, read);
        return (bytes32(body[32 * output:32 * output + 32]), proof[end:]);
    }

    function _areInputsStates() internal pure override returns (bool) {
        return false;
    }

    function _spend(Work memory work, uint256 place, bytes32 nullifier, uint256 output)
        internal
        override
        returns (bool)
    {
        if (place != NOT_HERE || output != NULLIFIER) revert Malformed(work.position, "input");
        if (_nullified[nullifier] != 0) return false;
        _nullified[nullifier] = 1;
        return true;
    }

    function _restore(Work memory, uint256, bytes32 nullifier, uint256) internal override {
        _nullified[nullifier] = 0;
    }

    function _wordToKeep(uint256 outputs, uint256 plan, uint256 body) internal pure override returns (uint256) {
        return (_hash(body, _bodyBytes(plan)) & ~uint256(0xffff)) | outputs;
    }
}
