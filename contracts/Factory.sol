// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Endorsed} from "./Endorsed.sol";

/// @title Deploys ledgers and tells the world about them
/// @notice A deployment is an intent: its id is used once, whoever uses it. On the chain stands what the chain needs;
/// names of nodes and parties travel in the private genesis, of which only the hash is told.
///
/// @dev An id that somebody else has taken costs a new id and nothing more: the event tells what was deployed under it,
/// and the address of a ledger depends on its policy and its genesis, so nobody can put another contract in its place.
contract Factory {
    /// @notice A contract was deployed with this intent already.
    error IntentUsed(bytes16 intent);

    /// @notice A ledger was deployed whose rounds are signed.
    event EndorsedDeployed(
        bytes16 indexed intent, address indexed ledger, bytes32 indexed genesis, address[] endorsers, uint256 threshold
    );

    /// @notice A ledger was deployed whose transitions are proved.
    /// @param issuer Who signs for new coins
    /// @param ledgerHash Says what it is: the hash of the hashes of its creation code and of the other arguments
    event ProvedDeployed(
        bytes16 indexed intent, address indexed ledger, bytes32 indexed genesis, address issuer, bytes32 ledgerHash
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

    /// @notice Deploy a ledger whose transitions are proved. There are several kinds, and this contract has the code of
    /// none: whoever is told of a ledger compares `ledgerHash` with that of the code that he trusts.
    /// @param intent The id of this deployment
    /// @param genesis The hash of the private genesis
    /// @param issuer Who signs for new coins: the first argument of the ledger's constructor
    /// @param code The creation code of the ledger
    /// @param arguments The other arguments of its constructor, encoded
    function deployProved(
        bytes16 intent,
        bytes32 genesis,
        address issuer,
        bytes calldata code,
        bytes calldata arguments
    ) external returns (address ledger) {
        ledger = _create(_saltOf(intent, genesis), abi.encodePacked(code, abi.encode(issuer), arguments));
        _deployed[intent] = ledger;
        bytes32 ledgerHash = keccak256(abi.encode(keccak256(code), keccak256(arguments)));
        emit ProvedDeployed(intent, ledger, genesis, issuer, ledgerHash);
    }

    /// @notice Put code where everybody can work out that it is: what ledgers share, such as verifiers. Done again, it
    /// finds it there.
    /// @param code Its creation code, which alone decides the address
    function place(bytes calldata code) external returns (address placed) {
        bytes32 place_ = keccak256(abi.encodePacked(hex"ff", address(this), bytes32(0), keccak256(code)));
        placed = address(uint160(uint256(place_)));
        if (placed.code.length == 0) _create(bytes32(0), code);
    }

    /// @notice What was deployed with an intent, or the address zero.
    /// @param intent The id of the deployment
    function ledgerOf(bytes16 intent) external view returns (address) {
        return _deployed[intent];
    }

    /// @dev Creates a contract; if its constructor refuses, so do we, in its words.
    function _create(bytes32 salt, bytes memory code) private returns (address created) {
        assembly ("memory-safe") {
            created := create2(0, add(code, 0x20), mload(code), salt)
            if iszero(created) {
                let told := mload(0x40)
                returndatacopy(told, 0, returndatasize())
                revert(told, returndatasize())
            }
        }
    }

    function _saltOf(bytes16 intent, bytes32 genesis) private view returns (bytes32) {
        if (_deployed[intent] != address(0)) revert IntentUsed(intent);
        return keccak256(abi.encode(intent, genesis));
    }
}
