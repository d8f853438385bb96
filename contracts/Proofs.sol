// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IProofVerifier} from "./IProofVerifier.sol";
import {StateLedger} from "./StateLedger.sol";

/// @title What all ledgers have in common whose transitions each carry a zero-knowledge proof
/// @notice Nobody signs a round: whoever has the proofs may commit it. Coins are made by the issuer's signature.
///
/// @dev The payload is that of every ledger. Of a transition's info, the first words are the commitments of its coins,
/// one for each output: what a proof is about. An output itself is the hash of all that its owner is told.
///
///     auth  = per full leaf, in order: length u16 | validUntil u64 | what the ledger wants to see | proof 256
///
/// A transition without inputs that makes coins has the issuer's compact signature of its binding instead, 64 bytes.
///
/// `binding = keccak(leaf, validUntil)`, reduced to the field, is the last public input of every circuit: it stands for
/// all that a circuit does not look into. A leaf says nothing about time and the round's own validity is anybody's
/// choice here, so each proof has one of its own. The proof of a transition that is skipped is not looked at.
///
/// Proofs of one shape that follow one another are gathered and verified together. Until then the call goes on, for if
/// one of them is wrong everything is undone. No transition may call others: calls run as this ledger, and nobody has
/// judged them.
abstract contract Proofs is StateLedger {
    /// @notice A verifier has no code.
    error NoVerifier(address verifier);

    /// @notice The address zero signs nothing.
    error NoIssuer();

    /// @notice `auth` ends before, within or behind the proof of this leaf, or the number of leaves if it is too long.
    error MalformedAuth(uint256 position);

    /// @notice The proof was valid until then.
    error ProofExpired(uint256 position, uint256 validUntil, uint256 time);

    /// @notice Coins are made of nothing by the issuer alone, whose signature this is not.
    error NotIssued(uint256 position);

    /// @notice The verifier refuses the proof.
    error WrongProof(uint256 position);

    /// @dev What one commit knows of its proofs: where that of the leaf at hand begins in `auth`, and those of one
    /// shape that wait to be verified, with their public inputs and the positions of their leaves.
    struct Docket {
        uint256 start;
        uint256 shape;
        uint256 count;
        uint256[] inputs;
        bytes proofs;
        uint256[] positions;
        // The coins that this call makes, where the ledger wants to know of them at its end.
        uint256[] coins;
        uint256 coinCount;
    }

    uint256 internal constant SMALL = 0;
    uint256 internal constant LARGE = 1;
    uint256 internal constant SMALL_OUTPUTS = 2;
    uint256 internal constant LARGE_OUTPUTS = 8;

    /// @dev The order of the field that circuits compute in.
    uint256 internal constant FIELD =
        21888242871839275222246405745257275088548364400416034343698204186575808495617;

    uint256 private constant PROOF_BYTES = 256;
    uint256 private constant SIGNATURE_BYTES = 64;
    uint256 private constant HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0;

    /// @notice Checks proofs of the small circuit.
    IProofVerifier public immutable smallVerifier;

    /// @notice Checks proofs of the large circuit.
    IProofVerifier public immutable largeVerifier;

    /// @notice Signs for the coins that are made of nothing.
    address public immutable issuer;

    constructor(address coinIssuer, IProofVerifier small, IProofVerifier large) {
        if (coinIssuer == address(0)) revert NoIssuer();
        if (address(small).code.length == 0) revert NoVerifier(address(small));
        if (address(large).code.length == 0) revert NoVerifier(address(large));
        issuer = coinIssuer;
        smallVerifier = small;
        largeVerifier = large;
    }

    /// @dev How many public inputs a circuit has.
    function _publicInputs(uint256 shape) internal pure virtual returns (uint256);

    /// @dev Each transition is authorised by its own proof.
    function _authorise(bytes32, bytes calldata) internal view override {}

    function _turnTo(Work memory work, uint256 leafAt, bytes calldata auth) internal pure override {
        uint256 position = _positionOf(work, leafAt);
        uint256 start = work.proofEnd + 2;
        if (start > auth.length) revert MalformedAuth(position);
        work.position = position;
        _docketOf(work).start = start;
        work.proofEnd = start + uint16(bytes2(auth[start - 2:start]));
        if (work.proofEnd > auth.length) revert MalformedAuth(position);
    }

    /// @dev What is to be done when all transitions were applied and all proofs are right.
    function _settle(Docket memory docket) internal virtual {}

    function _finish(Work memory work, bytes calldata auth) internal override {
        if (work.proofEnd != auth.length) revert MalformedAuth(work.count);
        if (work.docket == 0) return;
        Docket memory docket = _docketOf(work);
        _verifyGathered(docket);
        _settle(docket);
    }

    /// @dev What stands in `auth` for the leaf at hand behind its validity, and what the proof has to bind.
    function _proofOf(Work memory work, uint256 leafAt, uint256 plan, bytes calldata auth)
        internal
        view
        returns (bytes calldata proof, bytes32 binding)
    {
        uint256 position = work.position;
        if ((plan >> 120) & FLAG_BODY != 0) revert Malformed(position, "body");
        if ((plan >> 120) & FLAG_CALLS != 0) revert Malformed(position, "calls");
        proof = auth[_docketOf(work).start:work.proofEnd];
        if (proof.length < 8) revert MalformedAuth(position);
        uint256 validUntil = uint64(bytes8(proof[:8]));
        if (block.timestamp > validUntil) revert ProofExpired(position, validUntil, block.timestamp);
        binding = keccak256(abi.encode(_load(leafAt), validUntil));
        proof = proof[8:];
    }

    /// @dev Reverts unless the issuer has signed.
    function _requireIssuer(uint256 position, bytes32 binding, bytes calldata proof) internal view {
        if (proof.length != SIGNATURE_BYTES) revert MalformedAuth(position);
        uint256 tail = uint256(bytes32(proof[32:]));
        bytes32 s = bytes32(tail << 1 >> 1);
        address signer = ecrecover(binding, uint8(27 + (tail >> 255)), bytes32(proof[:32]), s);
        if (signer != issuer || uint256(s) > HALF_ORDER) revert NotIssued(position);
    }

    /// @dev Gathers a proof. Returns where its public inputs begin, for the caller to fill in. They are zero, as what a
    /// transition does not use stays so, but for the last, the binding.
    function _gather(Work memory work, uint256 shape, bytes32 binding, bytes calldata proof)
        internal
        view
        returns (uint256 first)
    {
        if (proof.length != PROOF_BYTES) revert MalformedAuth(work.position);
        Docket memory docket = _docketOf(work);
        if (docket.shape != shape) {
            _verifyGathered(docket);
            docket.shape = shape;
        }
        if (docket.positions.length == 0) {
            // Room for as many as there can be, once: what is gathered later takes the place of what was verified.
            docket.positions = new uint256[](work.count);
            docket.inputs = new uint256[](work.count * _publicInputs(LARGE));
            docket.proofs = new bytes(work.count * PROOF_BYTES);
        }
        uint256 size = _publicInputs(shape);
        (uint256 place, uint256[] memory inputs, bytes memory proofs) = (docket.count, docket.inputs, docket.proofs);
        assembly ("memory-safe") {
            first := add(add(inputs, 0x20), shl(5, mul(place, size)))
            calldatacopy(first, calldatasize(), shl(5, size))
            calldatacopy(add(add(proofs, 0x20), mul(place, PROOF_BYTES)), proof.offset, PROOF_BYTES)
        }
        _save(first + 32 * (size - 1), uint256(binding) % FIELD);
        docket.positions[place] = work.position;
        docket.count = place + 1;
    }

    /// @dev Reverts unless all that was gathered is right, naming the first that is not.
    function _verifyGathered(Docket memory docket) private view {
        uint256 count = docket.count;
        if (count == 0) return;
        if (!_areRight(docket, 0, count)) {
            for (uint256 i = 0; i < count; ++i) {
                if (!_areRight(docket, i, 1)) revert WrongProof(docket.positions[i]);
            }
            revert WrongProof(docket.positions[0]);
        }
        docket.count = 0;
    }

    /// @dev Asks the verifier about so many of those that were gathered.
    function _areRight(Docket memory docket, uint256 from, uint256 count) private view returns (bool) {
        uint256 size = 32 * _publicInputs(docket.shape);
        uint256[] memory inputs = new uint256[](count * size / 32);
        bytes memory proofs = new bytes(count * PROOF_BYTES);
        (uint256[] memory allInputs, bytes memory allProofs) = (docket.inputs, docket.proofs);
        assembly ("memory-safe") {
            mcopy(add(inputs, 0x20), add(add(allInputs, 0x20), mul(from, size)), mul(count, size))
            mcopy(add(proofs, 0x20), add(add(allProofs, 0x20), mul(from, PROOF_BYTES)), mul(count, PROOF_BYTES))
        }
        return (docket.shape == SMALL ? smallVerifier : largeVerifier).verify(inputs, proofs);
    }

    /// @dev The delegate of what is spent. Who commits a prepared transition is its committer: reading has seen to it.
    function _delegateOf(uint256 plan) internal pure returns (uint256) {
        if ((plan >> 120) & FLAG_PREPARED == 0) return 0;
        return _load((plan & 0xffffffff) - PREPARATION_BYTES) >> 96;
    }

    /// @dev Where the inputs begin: behind the reads.
    function _inputsOf(Work memory work, uint256 plan) internal pure returns (uint256 cursor) {
        cursor = plan & 0xffffffff;
        for (uint256 left = (plan >> 108) & 0xf; left != 0; --left) (,,, cursor) = _reference(work.leaves, cursor);
    }

    /// @dev The word that is kept: the bits of the outputs, and the hash of the coins in the others.
    function _wordToKeep(uint256 outputs, uint256 plan, uint256 body) internal pure override returns (uint256) {
        uint256 bytes_ = 32 * ((plan >> 112) & 0xf);
        return (_hash(body + bytes_, bytes_) & ~uint256(0xffff)) | outputs;
    }

    function _docketOf(Work memory work) internal pure returns (Docket memory docket) {
        uint256 found = work.docket;
        if (found == 0) {
            Docket memory made;
            assembly ("memory-safe") {
                found := made
            }
            work.docket = found;
        }
        assembly ("memory-safe") {
            docket := found
        }
    }
}
