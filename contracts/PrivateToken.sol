// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title A fungible token with the usual interface (ERC-20), to be used inside a privacy group
/// @notice Nothing in it knows that it is private. Whoever deploys it may mint.
contract PrivateToken {
    /// @notice An account has less than it is to give.
    error InsufficientBalance(address account, uint256 balance, uint256 needed);

    /// @notice A spender was allowed less than it is to take.
    error InsufficientAllowance(address owner, address spender, uint256 allowed, uint256 needed);

    /// @notice Only the issuer mints.
    error NotIssuer(address account);

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    string public name;
    string public symbol;
    uint8 public constant decimals = 18;
    address public issuer;
    uint256 public totalSupply;
    mapping(address account => uint256 balance) public balanceOf;
    mapping(address owner => mapping(address spender => uint256 allowed)) public allowance;

    constructor(string memory name_, string memory symbol_) {
        name = name_;
        symbol = symbol_;
        issuer = msg.sender;
    }

    /// @notice Make new tokens.
    /// @param to Who gets them
    /// @param value How many
    function mint(address to, uint256 value) external {
        if (msg.sender != issuer) revert NotIssuer(msg.sender);
        totalSupply += value;
        balanceOf[to] += value;
        emit Transfer(address(0), to, value);
    }

    /// @notice Make new tokens for many at once: as many for each, for accounts with numbers in a row.
    /// @param first The first of the accounts
    /// @param count How many accounts
    /// @param value How many tokens each gets
    function mintMany(uint160 first, uint160 count, uint256 value) external {
        if (msg.sender != issuer) revert NotIssuer(msg.sender);
        totalSupply += value * count;
        for (uint160 n = 0; n < count; ++n) {
            balanceOf[address(first + n)] += value;
        }
    }

    /// @notice Give own tokens away.
    /// @param to Who gets them
    /// @param value How many
    function transfer(address to, uint256 value) external returns (bool) {
        _move(msg.sender, to, value);
        return true;
    }

    /// @notice Let somebody take own tokens.
    /// @param spender Who may
    /// @param value How many
    function approve(address spender, uint256 value) external returns (bool) {
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
        return true;
    }

    /// @notice Give tokens of somebody who allowed it.
    /// @param from Whose tokens
    /// @param to Who gets them
    /// @param value How many
    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        uint256 allowed = allowance[from][msg.sender];
        if (allowed < value) revert InsufficientAllowance(from, msg.sender, allowed, value);
        allowance[from][msg.sender] = allowed - value;
        _move(from, to, value);
        return true;
    }

    function _move(address from, address to, uint256 value) private {
        uint256 balance = balanceOf[from];
        if (balance < value) revert InsufficientBalance(from, balance, value);
        balanceOf[from] = balance - value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
    }
}
