// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IProofVerifier} from "./IProofVerifier.sol";
import {Proofs} from "./Proofs.sol";

/// @title A ledger of coins whose amounts and owners nobody sees, and whose spending everybody can follow
/// @notice Inputs are states, as in every ledger; a proof shows that whoever spends them owns them and that nothing
/// comes of nothing.
///
/// @dev How the contract knows the commitment of a coin that is spent: the word that is kept for a transition has the
/// bits of its unspent outputs in its lowest 16 bits and the hash of its coins' commitments in the others. `auth` shows
/// the commitments of the transition that made an input.
///
///     auth = per full leaf: length u16 | validUntil u64 | signature of the intent's key 64
///            | per input: n u8, its maker's n coins | proof
///
/// When the last output is spent the word is zero again, and its place is given back.
///
/// A coin may have a delegate, which only its commitment knows. What spends it is a prepared transition, and is proved
/// with its committer as that delegate. What is not prepared spends coins without a delegate.
contract Proved is Proofs {
    uint256 private constant SMALL_INPUTS = 2;
    uint256 private constant LARGE_INPUTS = 10;

    /// @notice What is given for an input are not the coins of the transition that made it.
    error WrongMaker(uint256 position, uint256 input);

    /// @param coinIssuer Who signs for new coins
    /// @param small Checks the proofs with at most two inputs and two outputs, for ever
    /// @param large Checks those with at most ten and eight
    /// @param mayMintUnbacked Whether the issuer may both mint coins and set an ERC-20
    constructor(address coinIssuer, IProofVerifier small, IProofVerifier large, bool mayMintUnbacked)
        Proofs(coinIssuer, small, large, mayMintUnbacked)
    {}

    /// @dev Input commitments, output commitments, net, delegate, binding.
    function _publicInputs(uint256 shape) internal pure virtual override returns (uint256) {
        return shape == SMALL ? SMALL_INPUTS + SMALL_OUTPUTS + 3 : LARGE_INPUTS + LARGE_OUTPUTS + 3;
    }

    function _prove(Work memory work, uint256 leafAt, uint256 plan, bytes calldata auth)
        internal
        virtual
        override
    {
        (bytes calldata proof, bytes32 binding) = _proofOf(work, leafAt, plan, auth);
        if (_isEmpty(plan)) {
            if (proof.length != 0) revert MalformedAuth(work.position);
            return;
        }
        uint256 inputs = (plan >> 116) & 0xf;
        uint256 outputs = (plan >> 112) & 0xf;
        if ((plan >> 104) & 0xf != outputs) revert Malformed(work.position, "info");
        if (_isIssued(plan)) {
            unchecked {
                uint256 coins = _inputsOf(work, plan) + 32 * outputs;
                for (uint256 i = 0; i < outputs; ++i) _coinAt(work.position, coins + 32 * i);
            }
            return _requireIssuer(work.position, binding, proof);
        }
        if (inputs > LARGE_INPUTS) revert Malformed(work.position, "inputs");
        if (outputs > LARGE_OUTPUTS) revert Malformed(work.position, "outputs");
        uint256[] memory spent = new uint256[](inputs);
        uint256 body;
        (body, proof) = _showInputs(work, plan, spent, proof);
        uint256 net;
        (net, proof) = _netOf(work, plan, body, binding, proof);
        bool isSmall = inputs <= SMALL_INPUTS && outputs <= SMALL_OUTPUTS;
        uint256 slot = _gather(work, isSmall ? SMALL : LARGE, binding, proof);
        unchecked {
            for (uint256 i = 0; i < inputs; ++i) _save(slot + 32 * i, spent[i]);
            slot += 32 * (isSmall ? SMALL_INPUTS : LARGE_INPUTS);
            body += 32 * outputs;
            for (uint256 i = 0; i < outputs; ++i) _save(slot + 32 * i, _coinAt(work.position, body + 32 * i));
            slot += 32 * (isSmall ? SMALL_OUTPUTS : LARGE_OUTPUTS);
            _save(slot, net);
            _save(slot + 32, _delegateOf(plan));
        }
    }

    /// @dev Finds the commitments of all inputs. Returns where this transition's own body begins, and what of its proof
    /// follows the coins that are shown.
    function _showInputs(Work memory work, uint256 plan, uint256[] memory spent, bytes calldata proof)
        private
        returns (uint256 cursor, bytes calldata)
    {
        cursor = _inputsOf(work, plan);
        uint256 start = cursor;
        for (uint256 i = 0; i < spent.length; ++i) {
            (uint256 place, bytes32 maker, uint256 output, uint256 next) = _reference(work.leaves, cursor);
            (spent[i], proof) = _shown(work, i, _wordOf(work, place, maker), output, proof);
            cursor = next;
        }
        // Only now: two inputs may be of one word.
        while (start != cursor) {
            (uint256 place, bytes32 maker,, uint256 next) = _reference(work.leaves, start);
            if ((work.committed >> place) & 1 == 0 && _unspent[maker] & OUTPUTS == 0) delete _unspent[maker];
            start = next;
        }
        return (cursor, proof);
    }

    /// @dev The commitment of an input, from the coins of its maker; returns what follows them.
    function _shown(Work memory work, uint256 input, uint256 word, uint256 output, bytes calldata proof)
        private
        pure
        returns (uint256, bytes calldata)
    {
        if (proof.length == 0) revert MalformedAuth(work.position);
        uint256 end = 1 + 32 * uint256(uint8(proof[0]));
        if (end > proof.length) revert MalformedAuth(work.position);
        bytes calldata coins = proof[1:end];
        // What was hashed has a commitment for each output, so the slice below is within it.
        if ((uint256(keccak256(coins)) ^ word) >> 16 != 0) revert WrongMaker(work.position, input);
        return (uint256(bytes32(coins[32 * output:32 * output + 32])), proof[end:]);
    }

    function _areInputsStates() internal pure override returns (bool) {
        return true;
    }

    /// @dev In a word of ours a hash stands behind them.
    function _bitsOfOutputs() internal pure override returns (uint256) {
        return OUTPUTS;
    }

    /// @dev The hash stays until it is clear that the transition is committed: a skip gives the bit back.
    function _spend(Work memory, uint256, bytes32 leaf, uint256 output) internal override returns (bool) {
        uint256 word = _unspent[leaf];
        if (word & OUTPUTS & (1 << output) == 0) return false;
        _unspent[leaf] = word ^ (1 << output);
        return true;
    }

    function _restore(Work memory work, uint256 place, bytes32 leaf, uint256 output) internal override {
        _setWord(work, place, leaf, _wordOf(work, place, leaf) | (1 << output));
    }
}
