// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IStateLedger} from "./IStateLedger.sol";

/// @title Commits prepared transitions of several ledgers, all or none
/// @notice Anybody may settle. Each leg is a commit of one ledger with transitions that were prepared for this contract
/// as their committer and the hash of the full list of legs as their condition. To pass that condition the full list
/// has to be given, and then every transition in it is committed or nothing is: no leg goes alone.
contract Settlement {
    /// @notice A settlement has 1 to 32 legs.
    error WrongLegCount(uint256 count);

    /// @notice A leg has to name what is to be committed.
    error EmptyLeg(uint256 leg);

    /// @notice The leg's ledger did not commit exactly the transitions that the leg names.
    error LegNotCommitted(uint256 leg);

    /// @notice All legs were committed.
    /// @param condition The hash of the full list
    event Settled(bytes32 indexed condition);

    /// @dev A leg names, in the order of its payload, the core of each prepared transition.
    struct Leg {
        IStateLedger ledger;
        bytes32[] cores;
        bytes payload;
        bytes auth;
    }

    uint256 private constant LEGS_MAX = 32;

    /// @notice Commit all legs, or revert.
    /// @param legs The full list, in the order that the condition has
    function settle(Leg[] calldata legs) external {
        bytes32 condition = conditionOf(legs);
        for (uint256 i = 0; i < legs.length; ++i) {
            (, bytes32 preparedHash) = legs[i].ledger.commit(legs[i].payload, condition, legs[i].auth);
            if (preparedHash != _hashOf(legs[i].cores)) revert LegNotCommitted(i);
        }
        emit Settled(condition);
    }

    /// @notice What transitions have to be prepared with: the hash of each leg's ledger, padded to a word, and the
    /// hash chain of its cores. Payloads and signatures are not part of it, as they are made later.
    /// @param legs The full list
    function conditionOf(Leg[] calldata legs) public pure returns (bytes32) {
        uint256 count = legs.length;
        if (count == 0 || count > LEGS_MAX) revert WrongLegCount(count);
        bytes32[] memory words = new bytes32[](2 * count);
        for (uint256 i = 0; i < count; ++i) {
            if (legs[i].cores.length == 0) revert EmptyLeg(i);
            words[2 * i] = bytes32(uint256(uint160(address(legs[i].ledger))));
            words[2 * i + 1] = _hashOf(legs[i].cores);
        }
        return keccak256(abi.encodePacked(words));
    }

    /// @dev The same chain that a ledger makes of what it has committed.
    function _hashOf(bytes32[] calldata cores) private pure returns (bytes32 chain) {
        for (uint256 i = 0; i < cores.length; ++i) {
            chain = keccak256(abi.encode(chain, cores[i]));
        }
    }
}
