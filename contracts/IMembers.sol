// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Who takes part
interface IMembers {
    /// @notice A member acts in its own name and no other: this is another member's.
    error NotYourName(address caller, address member);

    /// @notice Only members may do this.
    error NotMember(address caller);

    /// @notice Whether an account is a member now.
    /// @param account The account
    function isMember(address account) external view returns (bool);

    /// @notice All members, in no particular order.
    function members() external view returns (address[] memory);
}
