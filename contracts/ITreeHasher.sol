// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Hashes the nodes of a tree
interface ITreeHasher {
    /// @notice The nodes above these children.
    /// @param children Four for each node; zero for one that is not there
    function hash(uint256[] calldata children) external pure returns (uint256[] memory nodes);
}
