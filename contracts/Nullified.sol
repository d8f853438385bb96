// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IProofVerifier} from "./IProofVerifier.sol";
import {ITreeHasher} from "./ITreeHasher.sol";
import {Proofs} from "./Proofs.sol";

/// @title A ledger of coins of which nobody sees which one is spent
/// @notice What spends a coin shows a nullifier, which only its owner could work out, and proves that its coin is one of
/// all that were ever made.
///
/// @dev An *input* is a nullifier: a reference FF, FF, nullifier 32. No state has the output number FF, so a leaf binds
/// a nullifier and no state can pass for one. It is marked with a word of its own that is never cleared.
///
/// All coins are the leaves of a tree with four children a node, in the order in which they were made; a level is filled
/// from the left, and the root is the one node of the lowest level that has only one. The coins of a round are added
/// when it ends, all at once, so that the nodes above them are hashed once. Of the tree is kept its right edge: in
/// each level the nodes that are complete and whose parent is not. Roots are remembered. Those of the latest `ROOTS`
/// blocks that made coins count: what is proved while others spend is not in vain. All roots of one block count as one,
/// so that nobody makes a root old in less than `ROOTS` blocks, whatever he pays. A root that does not count skips a
/// transition, as a read that is not there does.
///
/// A *read*, of which there is one at most, names a state whose coin the tree may not have yet: so an owner spends its
/// change at once. States are never cleared, and their words have the hash of their coins as those of `Proved` do.
///
///     auth = per full leaf: length u16 | validUntil u64 | signature of the intent's key 64 | root 32
///            | with a read: n u8, its maker's n coins | proof
contract Nullified is Proofs {
    /// @notice What is given for the read are not the coins of the transition that made it.
    error WrongMaker(uint256 position);

    /// @notice There is no room for more coins.
    error TreeFull();

    /// @notice Of how many blocks that made coins the roots count, the latest first.
    uint256 public constant ROOTS = 1024;

    uint256 private constant SMALL_INPUTS = 2;
    uint256 private constant LARGE_INPUTS = 5;
    uint256 private constant NULLIFIER = 0xff;
    uint256 private constant NULLIFIER_BYTES = 34;
    uint256 private constant CHILDREN = 4;
    uint256 private constant COINS_MAX = 2 ** 32;

    /// @notice Hashes the nodes of the tree.
    ITreeHasher public immutable treeHasher;

    mapping(bytes32 nullifier => uint256 mark) private _nullified;

    /// @dev The number of each root, from 1 and one for each block that made coins; and of each level of the tree the
    /// right edge, three nodes at most.
    mapping(uint256 root => uint256 number) private _roots;
    mapping(uint256 level => uint256[3] nodes) private _edge;
    uint64 private _coinCount;
    uint64 private _rootBlock;
    uint128 private _rootCount;

    /// @param coinIssuer Who signs for new coins
    /// @param small Checks the proofs with at most two inputs and two outputs, for ever
    /// @param large Checks those with at most five and eight
    /// @param hasher Hashes the nodes of the tree
    /// @param mayMintUnbacked Whether the issuer may both mint coins and set an ERC-20
    constructor(
        address coinIssuer,
        IProofVerifier small,
        IProofVerifier large,
        ITreeHasher hasher,
        bool mayMintUnbacked
    ) Proofs(coinIssuer, small, large, mayMintUnbacked) {
        if (address(hasher).code.length == 0) revert NoVerifier(address(hasher));
        treeHasher = hasher;
    }

    /// @notice Whether a nullifier is marked, and by this its coin is spent.
    /// @param nullifier The nullifier
    function isNullified(bytes32 nullifier) external view whenNotCalling returns (bool) {
        return _nullified[nullifier] != 0;
    }

    /// @notice How many coins there are, and how many blocks made some.
    function size() external view whenNotCalling returns (uint256 coins, uint256 roots) {
        return (_coinCount, _rootCount);
    }

    /// @notice Whether a root counts.
    /// @param root The root
    function isRecent(uint256 root) public view returns (bool) {
        uint256 number = _roots[root];
        return number != 0 && number + ROOTS > _rootCount;
    }

    /// @dev Nullifiers, root, pending, output commitments, net, delegate, binding.
    function _publicInputs(uint256 shape) internal pure virtual override returns (uint256) {
        return shape == SMALL ? SMALL_INPUTS + 2 + SMALL_OUTPUTS + 3 : LARGE_INPUTS + 2 + LARGE_OUTPUTS + 3;
    }

    /// @dev What is proved shows a root, behind the signature of its intent's key.
    function _admit(Work memory work, uint256 plan, uint256 body, bytes calldata auth)
        internal
        view
        virtual
        override
        returns (bytes32)
    {
        super._admit(work, plan, body, auth);
        if (_isIssued(plan) || _isEmpty(plan)) return 0;
        uint256 start = _docketOf(work).start + AUTH_HEAD_BYTES;
        if (start + 32 > work.proofEnd) revert MalformedAuth(work.position);
        uint256 root = uint256(bytes32(auth[start:start + 32]));
        return root == 0 || isRecent(root) ? bytes32(0) : bytes32(root);
    }

    function _prove(Work memory work, uint256 leafAt, uint256 plan, bytes calldata auth) internal override {
        (bytes calldata proof, bytes32 binding) = _proofOf(work, leafAt, plan, auth);
        if (_isEmpty(plan)) {
            if (proof.length != 0) revert MalformedAuth(work.position);
            return;
        }
        uint256 inputs = (plan >> 116) & 0xf;
        uint256 outputs = (plan >> 112) & 0xf;
        if ((plan >> 104) & 0xf != outputs) revert Malformed(work.position, "info");
        uint256 cursor = _inputsOf(work, plan);
        if (_isIssued(plan)) {
            _requireIssuer(work.position, binding, proof);
            return _grow(work, cursor + 32 * outputs, outputs);
        }
        if (inputs > LARGE_INPUTS) revert Malformed(work.position, "inputs");
        if (outputs > LARGE_OUTPUTS) revert Malformed(work.position, "outputs");
        // Whether the root is recent was looked at when the transition was admitted.
        uint256 root = uint256(bytes32(proof[:32]));
        (uint256 pending, uint256 net) = (0, 0);
        (pending, proof) = _pendingOf(work, plan, proof[32:]);
        (net, proof) = _netOf(work, plan, cursor + NULLIFIER_BYTES * inputs, binding, proof);
        bool isSmall = inputs <= SMALL_INPUTS && outputs <= SMALL_OUTPUTS;
        uint256 slot = _gather(work, isSmall ? SMALL : LARGE, binding, proof);
        unchecked {
            for (uint256 i = 0; i < inputs; ++i) {
                (, bytes32 nullifier,, uint256 next) = _reference(work.leaves, cursor);
                _save(slot + 32 * i, uint256(nullifier));
                cursor = next;
            }
            slot += 32 * (isSmall ? SMALL_INPUTS : LARGE_INPUTS);
            _save(slot, root);
            _save(slot + 32, pending);
            for (uint256 i = 0; i < outputs; ++i) _save(slot + 64 + 32 * i, _load(cursor + 32 * (outputs + i)));
            slot += 64 + 32 * (isSmall ? SMALL_OUTPUTS : LARGE_OUTPUTS);
            _save(slot, net);
            _save(slot + 32, _delegateOf(plan));
            _grow(work, cursor + 32 * outputs, outputs);
        }
    }

    /// @dev The coin that is read by name, zero when none is; returns what follows of the proof.
    function _pendingOf(Work memory work, uint256 plan, bytes calldata proof)
        private
        view
        returns (uint256, bytes calldata)
    {
        uint256 reads = (plan >> 108) & 0xf;
        if (reads == 0) return (0, proof);
        if (reads != 1) revert Malformed(work.position, "reads");
        (uint256 place, bytes32 maker, uint256 output,) = _reference(work.leaves, plan & 0xffffffff);
        if (proof.length == 0) revert MalformedAuth(work.position);
        uint256 end = 1 + 32 * uint256(uint8(proof[0]));
        if (end > proof.length) revert MalformedAuth(work.position);
        bytes calldata coins = proof[1:end];
        // What was hashed has a commitment for each output, and the read has been found to be one.
        if ((uint256(keccak256(coins)) ^ _wordOf(work, place, maker)) >> 16 != 0) revert WrongMaker(work.position);
        return (uint256(bytes32(coins[32 * output:32 * output + 32])), proof[end:]);
    }

    // The tree.

    /// @dev Notes the coins of a transition that is committed.
    function _grow(Work memory work, uint256 cursor, uint256 count) private pure {
        Docket memory docket = _docketOf(work);
        // Each coin has an output beside it in the payload.
        if (docket.coins.length == 0) docket.coins = new uint256[]((work.end - work.payload) / 64);
        for (uint256 i = 0; i < count; ++i) {
            docket.coins[docket.coinCount++] = _coinAt(work.position, cursor + 32 * i);
        }
    }

    /// @dev The round has ended: its coins go into the tree, level by level up to the one with one node.
    function _settle(Docket memory docket) internal override {
        uint256 added = docket.coinCount;
        if (added == 0) return;
        uint256 before = _coinCount;
        if (before + added > COINS_MAX) revert TreeFull();
        uint256[] memory nodes = docket.coins;
        assembly ("memory-safe") {
            mstore(nodes, added)
        }
        // How many nodes of a level are complete, before and afterwards.
        uint256 complete = before;
        uint256 completeNow = before + added;
        uint256 level = 0;
        while (complete + nodes.length > 1) {
            uint256[] memory children = _childrenOf(level, complete, completeNow, nodes);
            nodes = treeHasher.hash(children);
            complete /= CHILDREN;
            completeNow /= CHILDREN;
            ++level;
        }
        if (completeNow != complete) _edge[level][0] = nodes[0];
        uint256 number = _rootBlock == block.number ? _rootCount : _rootCount + 1;
        (_coinCount, _rootBlock, _rootCount) = (uint64(before + added), uint64(block.number), uint128(number));
        _roots[nodes[0]] = number;
    }

    /// @dev What stands under the nodes of the next level that are new: the edge, then what was added, then zeros. Keeps
    /// what is the edge from now on.
    function _childrenOf(uint256 level, uint256 complete, uint256 completeNow, uint256[] memory nodes)
        private
        returns (uint256[] memory children)
    {
        uint256 kept = complete % CHILDREN;
        uint256 filled = kept + nodes.length;
        children = new uint256[]((filled + CHILDREN - 1) / CHILDREN * CHILDREN);
        for (uint256 i = 0; i < kept; ++i) children[i] = _edge[level][i];
        for (uint256 i = 0; i < nodes.length; ++i) children[kept + i] = nodes[i];
        if (completeNow == complete) return children;
        uint256 first = completeNow - completeNow % CHILDREN - (complete - kept);
        for (uint256 i = 0; i < completeNow % CHILDREN; ++i) {
            // Of an edge that only grew, what was there stays.
            if (first + i >= kept) _edge[level][i] = children[first + i];
        }
    }

    // Inputs.

    function _areInputsStates() internal pure override returns (bool) {
        return false;
    }

    function _spend(Work memory work, uint256 place, bytes32 nullifier, uint256 output)
        internal
        override
        returns (bool)
    {
        if (place != NOT_HERE || output != NULLIFIER) revert Malformed(work.position, "input");
        // Zero is the slot of a circuit that is not used.
        if (nullifier == 0) revert Malformed(work.position, "nullifier");
        if (_nullified[nullifier] != 0) return false;
        _nullified[nullifier] = 1;
        return true;
    }

    function _restore(Work memory, uint256, bytes32 nullifier, uint256) internal override {
        _nullified[nullifier] = 0;
    }
}
