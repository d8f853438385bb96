// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Endorsed} from "./Endorsed.sol";
import {IVerifier} from "./IVerifier.sol";
import {Proved} from "./Proved.sol";

/// @title Deploys ledgers and tells the world about them
/// @notice A deployment is an intent: its id is used once, whoever uses it. On the chain stands what the chain needs; names
/// of nodes and parties travel in the private genesis, of which only the hash is told.
///
/// @dev An id that somebody else has taken costs a new id and nothing more: the event tells what was deployed under it, and
/// the address of a ledger depends on its policy and its genesis, so nobody can put another contract in its place.
contract Factory {
    /// @notice A contract was deployed with this intent already.
    error IntentUsed(bytes16 intent);

    /// @notice A ledger was deployed whose rounds are signed.
    event EndorsedDeployed(
        bytes16 indexed intent, address indexed ledger, bytes32 indexed genesis, address[] endorsers, uint256 threshold
    );

    /// @notice A ledger was deployed whose transitions are proved.
    event ProvedDeployed(
        bytes16 indexed intent, address indexed ledger, bytes32 indexed genesis, IVerifier verifier
    );

    mapping(bytes16 intent => address ledger) private _deployed;

    /// @notice Deploy a ledger whose rounds are signed by k of n.
    /// @param intent The id of this deployment
    /// @param genesis The hash of the private genesis
    /// @param endorsers The addresses that sign, fresh ones for this contract, in an order that stays
    /// @param threshold How many of them have to sign
    function deployEndorsed(bytes16 intent, bytes32 genesis, address[] calldata endorsers, uint256 threshold)
        external
        returns (Endorsed ledger)
    {
        ledger = new Endorsed{salt: _saltOf(intent, genesis)}(endorsers, threshold);
        _deployed[intent] = address(ledger);
        emit EndorsedDeployed(intent, address(ledger), genesis, endorsers, threshold);
    }

    /// @notice Deploy a ledger whose transitions are proved.
    /// @param intent The id of this deployment
    /// @param genesis The hash of the private genesis
    /// @param verifier The contract that checks the proofs
    function deployProved(bytes16 intent, bytes32 genesis, IVerifier verifier) external returns (Proved ledger) {
        ledger = new Proved{salt: _saltOf(intent, genesis)}(verifier);
        _deployed[intent] = address(ledger);
        emit ProvedDeployed(intent, address(ledger), genesis, verifier);
    }

    /// @notice What was deployed with an intent, or the address zero.
    /// @param intent The id of the deployment
    function ledgerOf(bytes16 intent) external view returns (address) {
        return _deployed[intent];
    }

    function _saltOf(bytes16 intent, bytes32 genesis) private view returns (bytes32) {
        if (_deployed[intent] != address(0)) revert IntentUsed(intent);
        return keccak256(abi.encode(intent, genesis));
    }
}
