// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IProofVerifier} from "./IProofVerifier.sol";
import {Identities} from "./Identities.sol";
import {ITreeHasher} from "./ITreeHasher.sol";
import {Nullified} from "./Nullified.sol";

/// @title A ledger as `Nullified`, whose coins only registered owners spend and get
contract NullifiedKyc is Nullified, Identities {
    /// @param coinIssuer Who signs for new coins, and registers owners
    /// @param verifier Checks the proofs, with at most two inputs and two outputs, for ever
    /// @param hasher Hashes the nodes of both trees
    /// @param mayMintUnbacked Whether the issuer may both mint coins and set an ERC-20
    constructor(address coinIssuer, IProofVerifier verifier, ITreeHasher hasher, bool mayMintUnbacked)
        Nullified(coinIssuer, verifier, verifier, hasher, mayMintUnbacked)
        Identities(hasher)
    {}

    /// @dev Those of `Nullified`, and the root of identities before the binding.
    function _publicInputs(uint256 shape) internal pure override returns (uint256) {
        return super._publicInputs(shape) + 1;
    }

    /// @dev The root of identities counts too. Coins by the issuer's signature show none.
    function _admit(Work memory work, uint256 plan, uint256 body, bytes calldata auth)
        internal
        view
        override
        returns (bytes32 lacking)
    {
        lacking = super._admit(work, plan, body, auth);
        if (lacking != 0 || _isIssued(plan) || _isEmpty(plan)) return lacking;
        return _lackingRoot(work.position, auth[_docketOf(work).start:work.proofEnd]);
    }

    /// @dev The root of identities stands before the proof, and is the public input before the binding.
    function _gather(Work memory work, uint256 shape, bytes32 binding, bytes calldata proof)
        internal
        view
        override
        returns (uint256 first)
    {
        if (shape != SMALL) revert Malformed(work.position, "shape");
        if (proof.length < 32) revert MalformedAuth(work.position);
        first = super._gather(work, shape, binding, proof[32:]);
        _save(first + 32 * (_publicInputs(shape) - 2), uint256(bytes32(proof[:32])));
    }

    function _requireRegistrar(bytes calldata signed, bytes calldata signature) internal view override {
        bytes32 digest = keccak256(abi.encodePacked(domainSeparator(), signed));
        if (!_isSignedBy(issuer, digest, signature)) revert NotIssuer();
    }
}
