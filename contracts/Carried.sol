// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Lockable} from "./Lockable.sol";

/// @title An endorsed ledger whose transitions another private contract carries out
/// @notice The other contract decides about each transition, and commits it together with a transition of its own, or
/// commits neither. Its ledger is the carrier. An endorser cannot commit past it: a transition that does anything is
/// committed by `carry` alone, and `carry` takes it from the carrier alone.
///
/// @dev A carried transition is prepared for this ledger as its committer, so that only `carry`, a call of the ledger to
/// itself, can commit it. `carry` reverts unless all that it names is committed: the transition of the carrier that
/// makes this call is then skipped. Empty transitions void intents, and are committed as in every endorsed ledger.
///
/// The carrier's ledger can have several contracts. The endorsers there let a call of `carry` pass only from the
/// contract that it names, so that `decider` is the one that decides.
///
/// A transition that changes a lock is carried as any other. What a lock permits was decided when its record was set:
/// its delegate commits that without the carrier, by the public functions of `Lockable`.
contract Carried is Lockable {
    /// @notice Only the carrier's ledger has transitions carried out.
    error NotCarrier(address caller);

    /// @notice Another contract decides about the transitions of this ledger.
    error NotDecider(address named, address decider);

    /// @notice A transition that is not empty is committed by `carry` alone.
    error NotCarried(bytes16 intent);

    /// @notice What was committed is not what was to be carried out.
    /// @param named The hash chain of the cores that were named
    /// @param committed The hash chain of the cores that were committed
    error OtherCores(bytes32 named, bytes32 committed);

    /// @notice The ledger whose transitions carry those of this one.
    address public immutable carrier;

    /// @notice The contract of that ledger that decides.
    address public immutable decider;

    /// @param endorser The one endorser
    /// @param carrier_ The ledger whose transitions carry those of this one
    /// @param decider_ The contract of that ledger that decides
    constructor(address endorser, address carrier_, address decider_) Lockable(_setOf(endorser), 1) {
        carrier = carrier_;
        decider = decider_;
    }

    /// @notice Commits transitions, or reverts. The carrier's ledger does it, for the contract that decides.
    /// @param decider_ The contract that calls; the endorsers of the carrier check that it does
    /// @param payload As for `commit`
    /// @param auth As for `commit`
    /// @param cores The hash chain of the cores of all transitions that are to be committed, as `commit` returns it
    function carry(address decider_, bytes calldata payload, bytes calldata auth, bytes32 cores) external whenNotCalling {
        if (msg.sender != carrier) revert NotCarrier(msg.sender);
        if (decider_ != decider) revert NotDecider(decider_, decider);
        (, bytes32 committed) = this.commit(payload, 0, auth);
        if (committed != cores || cores == 0) revert OtherCores(cores, committed);
    }

    function _admit(Work memory work, uint256 plan, uint256 body, bytes calldata auth)
        internal
        view
        override
        returns (bytes32)
    {
        // Neither calls, nor a lock, nor inputs, outputs, reads or info.
        bool isEmpty = (plan >> 120) & (FLAG_CALLS | _lockFlag()) == 0 && uint16(plan >> 104) == 0;
        if (!isEmpty && msg.sender != address(this)) revert NotCarried(bytes16(uint128(plan >> 128)));
        return super._admit(work, plan, body, auth);
    }

    function _setOf(address endorser) private pure returns (address[] memory endorsers) {
        endorsers = new address[](1);
        endorsers[0] = endorser;
    }
}
