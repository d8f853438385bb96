// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IMembers} from "./IMembers.sol";

/// @title A clock that any member may advance
/// @notice An example of a task that every node attempts: the first one wins, and the others are told that it is too
/// early for the next. No member can do it in another's name.
contract Epochs {
    /// @notice An epoch must last a second at least.
    error NoDuration();

    /// @notice The next epoch does not begin yet, perhaps because somebody else was faster.
    error TooEarly(uint256 epoch, uint256 dueAt, uint256 time);

    /// @notice An epoch has begun.
    event Advanced(uint256 indexed epoch, address indexed member);

    /// @notice Who may advance.
    IMembers public immutable membership;

    /// @notice When epoch 0 began.
    uint256 public immutable startedAt;

    /// @notice How long an epoch lasts, in seconds.
    uint256 public immutable duration;

    /// @notice The epoch that has begun last.
    uint256 public epoch;

    /// @param membership_ Who may advance
    /// @param duration_ How long an epoch lasts, in seconds
    constructor(IMembers membership_, uint256 duration_) {
        if (duration_ == 0) revert NoDuration();
        membership = membership_;
        startedAt = block.timestamp;
        duration = duration_;
    }

    /// @notice Begin the next epoch in the caller's name.
    function advance() external {
        _advance(msg.sender);
    }

    /// @notice Begin the next epoch in the name of a member, who has to be the caller.
    /// @param member The caller's own address
    function advance(address member) external {
        _advance(member);
    }

    /// @notice When the next epoch begins, if somebody advances. After a pause, epochs are made up for one by one.
    function dueAt() public view returns (uint256) {
        return startedAt + (epoch + 1) * duration;
    }

    function _advance(address member) private {
        if (!membership.isMember(msg.sender)) revert IMembers.NotMember(msg.sender);
        if (member != msg.sender) revert IMembers.NotYourName(msg.sender, member);
        if (block.timestamp < dueAt()) revert TooEarly(epoch, dueAt(), block.timestamp);
        emit Advanced(++epoch, member);
    }
}
