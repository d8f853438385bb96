// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IMembers} from "./IMembers.sol";

/// @title Decisions of two thirds of the members
/// @notice A proposal is a call that this contract makes once two thirds of the members have voted for it. Any member
/// may then execute it, once, until it expires 30 days after it was proposed. A vote counts for as long as its member stays
/// one: whoever leaves and is added again has to vote anew. The members themselves change in this way alone: by a proposal that calls this contract.
contract Proposals is IMembers {
    /// @notice There are 1 to 64 members.
    error WrongMemberCount(uint256 count);

    /// @notice The address zero and an address twice are refused.
    error WrongMember(address member);

    /// @notice The members change by a proposal alone.
    error OnlyProposal();

    /// @notice There is no such proposal.
    error UnknownProposal(uint256 id);

    /// @notice The member has voted for this proposal.
    error AlreadyVoted(uint256 id, address member);

    /// @notice Somebody has executed it.
    error AlreadyExecuted(uint256 id);

    /// @notice It was proposed too long ago.
    error Expired(uint256 id);

    /// @notice Fewer than two thirds of the members have voted for it.
    error TooFewVotes(uint256 id, uint256 votes, uint256 required);

    /// @notice The target has no code, so that a call of it would do nothing.
    error NoTarget(address target);

    /// @notice The proposed call failed, so that the proposal may be executed later.
    error ProposalFailed(uint256 id, bytes reason);

    /// @notice A member proposes a call.
    event Proposed(uint256 indexed id, address indexed member, address target, bytes input);

    /// @notice A member voted for a proposal.
    event Voted(uint256 indexed id, address indexed member);

    /// @notice A member executed a proposal.
    event Executed(uint256 indexed id, address indexed member);

    /// @notice An account became a member.
    event MemberAdded(address indexed member);

    /// @notice An account is no member any more.
    event MemberRemoved(address indexed member);

    /// @dev `membership` tells one time of being a member from another.
    struct Vote {
        address member;
        uint64 membership;
    }

    struct Proposal {
        address target;
        bool isExecuted;
        uint64 expiresAt;
        bytes input;
        Vote[] votes;
    }

    /// @notice How long a proposal can be voted for and executed, in seconds.
    uint256 public constant OPEN_FOR = 30 days;

    uint256 private constant MEMBERS_MAX = 64;

    address[] private _members;
    mapping(address account => uint256 numberFromOne) private _numbers;
    Proposal[] private _proposals;
    mapping(address account => uint64 times) private _memberships;
    mapping(uint256 id => mapping(address member => uint64 membership)) private _voted;

    /// @dev Also when a name is given, whoever is no member learns that first.
    modifier onlyMember() {
        if (!isMember(msg.sender)) revert NotMember(msg.sender);
        _;
    }

    modifier onlyProposal() {
        if (msg.sender != address(this)) revert OnlyProposal();
        _;
    }

    /// @param firstMembers The members at the beginning
    constructor(address[] memory firstMembers) {
        if (firstMembers.length == 0) revert WrongMemberCount(0);
        for (uint256 i = 0; i < firstMembers.length; ++i) _add(firstMembers[i]);
    }

    /// @notice Propose a call and vote for it.
    /// @param target The contract to call
    /// @param input What to call it with
    function propose(address target, bytes calldata input) external onlyMember returns (uint256 id) {
        if (target.code.length == 0) revert NoTarget(target);
        id = _proposals.length;
        Proposal storage proposal = _proposals.push();
        proposal.target = target;
        proposal.expiresAt = uint64(block.timestamp + OPEN_FOR);
        proposal.input = input;
        emit Proposed(id, msg.sender, target, input);
        _vote(id, proposal);
    }

    /// @notice Vote for a proposal.
    /// @param id The proposal
    function vote(uint256 id) external onlyMember {
        _vote(id, _open(id));
    }

    /// @notice Execute a proposal in the caller's name.
    /// @param id The proposal
    function execute(uint256 id) external onlyMember {
        _execute(id);
    }

    /// @notice Execute a proposal in the name of a member, who has to be the caller.
    /// @param id The proposal
    /// @param member The caller's own address
    function execute(uint256 id, address member) external onlyMember {
        if (member != msg.sender) revert NotYourName(msg.sender, member);
        _execute(id);
    }

    /// @notice Make an account a member; only a proposal does it.
    /// @param account The account
    function addMember(address account) external onlyProposal {
        _add(account);
    }

    /// @notice Make a member one no more; only a proposal does it. Its votes count no longer.
    /// @param account The member
    function removeMember(address account) external onlyProposal {
        uint256 number = _numbers[account];
        if (number == 0) revert WrongMember(account);
        if (_members.length == 1) revert WrongMemberCount(0);
        address last = _members[_members.length - 1];
        _members[number - 1] = last;
        _numbers[last] = number;
        delete _numbers[account];
        _members.pop();
        emit MemberRemoved(account);
    }

    /// @inheritdoc IMembers
    function members() external view returns (address[] memory) {
        return _members;
    }

    /// @notice A proposal, and how it stands.
    /// @param id The proposal
    /// @return target The contract that it calls
    /// @return input What it calls it with
    /// @return votes How many of the present members have voted for it; none when it has expired
    /// @return isExecuted Whether somebody has executed it
    function proposalOf(uint256 id)
        external
        view
        returns (address target, bytes memory input, uint256 votes, bool isExecuted)
    {
        if (id >= _proposals.length) revert UnknownProposal(id);
        Proposal storage proposal = _proposals[id];
        return (proposal.target, proposal.input, _votesFor(proposal), proposal.isExecuted);
    }

    /// @notice Whether a proposal can still be voted for and executed.
    /// @param id The proposal
    function isOpen(uint256 id) external view returns (bool) {
        if (id >= _proposals.length) revert UnknownProposal(id);
        return !_proposals[id].isExecuted && block.timestamp < _proposals[id].expiresAt;
    }

    /// @notice How many votes a proposal needs now: two thirds of the members, rounded up.
    function requiredVotes() public view returns (uint256) {
        return (2 * _members.length + 2) / 3;
    }

    /// @inheritdoc IMembers
    function isMember(address account) public view returns (bool) {
        return _numbers[account] != 0;
    }

    function _open(uint256 id) private view returns (Proposal storage proposal) {
        if (id >= _proposals.length) revert UnknownProposal(id);
        proposal = _proposals[id];
        if (proposal.isExecuted) revert AlreadyExecuted(id);
        if (block.timestamp >= proposal.expiresAt) revert Expired(id);
    }

    function _vote(uint256 id, Proposal storage proposal) private {
        uint64 membership = _memberships[msg.sender];
        if (_voted[id][msg.sender] == membership) revert AlreadyVoted(id, msg.sender);
        _voted[id][msg.sender] = membership;
        proposal.votes.push(Vote(msg.sender, membership));
        emit Voted(id, msg.sender);
    }

    /// @dev It counts as executed before it is called, so that the call cannot execute it again.
    function _execute(uint256 id) private {
        Proposal storage proposal = _open(id);
        uint256 votes = _votesFor(proposal);
        if (votes < requiredVotes()) revert TooFewVotes(id, votes, requiredVotes());
        proposal.isExecuted = true;
        emit Executed(id, msg.sender);
        (bool isDone, bytes memory reason) = proposal.target.call(proposal.input);
        if (!isDone) revert ProposalFailed(id, reason);
    }

    /// @dev Whoever has left since it voted does not count, also if it was added again.
    function _votesFor(Proposal storage proposal) private view returns (uint256 votes) {
        if (block.timestamp >= proposal.expiresAt) return 0;
        for (uint256 i = 0; i < proposal.votes.length; ++i) {
            Vote storage given = proposal.votes[i];
            if (isMember(given.member) && _memberships[given.member] == given.membership) ++votes;
        }
    }

    function _add(address account) private {
        if (account == address(0) || isMember(account)) revert WrongMember(account);
        if (_members.length == MEMBERS_MAX) revert WrongMemberCount(MEMBERS_MAX + 1);
        _members.push(account);
        _numbers[account] = _members.length;
        ++_memberships[account];
        emit MemberAdded(account);
    }
}
