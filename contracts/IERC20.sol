// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title What ledgers of coins need to know of an ERC-20. Some tokens return nothing, so no result is declared
interface IERC20 {
    /// @notice What an account has.
    /// @param account The account
    function balanceOf(address account) external view returns (uint256);

    /// @notice Give of one's own.
    /// @param to Who gets it
    /// @param amount How much
    function transfer(address to, uint256 amount) external;

    /// @notice Take what somebody lets one take.
    /// @param from Whose it is
    /// @param to Who gets it
    /// @param amount How much
    function transferFrom(address from, address to, uint256 amount) external;
}
