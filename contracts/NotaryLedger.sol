// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Lockable} from "./Lockable.sol";

/// @title A ledger with locks that one notary endorses
/// @notice `Lockable` with one endorser, in the form in which `Factory.deployProved` deploys code that it does not have.
contract NotaryLedger is Lockable {
    /// @param notary The address that signs each round
    constructor(address notary) Lockable(_only(notary), 1) {}

    function _only(address notary) private pure returns (address[] memory endorsers) {
        endorsers = new address[](1);
        endorsers[0] = notary;
    }
}
