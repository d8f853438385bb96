// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title An ERC-20 for tests, whose ways can be changed
contract TestToken {
    error ERC20InsufficientBalance(address sender, uint256 balance, uint256 needed);
    error ERC20InsufficientAllowance(address spender, uint256 allowance, uint256 needed);
    error ERC20InvalidReceiver(address receiver);

    /// @notice What it does when it is asked to move something.
    enum Ways {
        Honest,
        Silent,
        Declining,
        KeepingOne,
        TakingOneMore,
        Calling,
        Burning,
        Muttering
    }

    mapping(address account => uint256) public balanceOf;
    mapping(address owner => mapping(address spender => uint256)) public allowance;
    Ways public ways;
    address private _callee;
    bytes private _call;
    bytes public answer;

    /// @notice Make tokens of nothing.
    /// @param to Who gets them
    /// @param amount How many
    function mint(address to, uint256 amount) external {
        balanceOf[to] += amount;
    }

    /// @notice Let somebody take so many.
    /// @param spender Who may
    /// @param amount How many
    function approve(address spender, uint256 amount) external returns (bool) {
        allowance[msg.sender][spender] = amount;
        return true;
    }

    /// @notice Change its ways.
    /// @param ways_ What it does from now on
    function behave(Ways ways_) external {
        ways = ways_;
    }

    /// @notice Call somebody in the middle of moving something, and remember what came back.
    /// @param callee Whom
    /// @param call With what
    function callMeanwhile(address callee, bytes calldata call) external {
        (ways, _callee, _call) = (Ways.Calling, callee, call);
    }

    /// @notice Give of one's own.
    /// @param to Who gets it
    /// @param amount How much
    function transfer(address to, uint256 amount) external {
        _move(msg.sender, to, amount);
    }

    /// @notice Take what somebody lets one take.
    /// @param from Whose it is
    /// @param to Who gets it
    /// @param amount How much
    function transferFrom(address from, address to, uint256 amount) external {
        uint256 allowed = allowance[from][msg.sender];
        if (allowed < amount) revert ERC20InsufficientAllowance(msg.sender, allowed, amount);
        allowance[from][msg.sender] = allowed - amount;
        _move(from, to, amount);
    }

    /// @dev Ends the call, with what its ways let it return.
    function _move(address from, address to, uint256 amount) private {
        if (ways == Ways.Declining) _return(0, 32);
        if (ways == Ways.Burning) while (true) {}
        if (ways == Ways.Calling) {
            (bool isDone, bytes memory told) = _callee.call(_call);
            answer = abi.encodePacked(isDone, told);
        }
        if (to == address(0)) revert ERC20InvalidReceiver(to);
        uint256 taken = ways == Ways.TakingOneMore ? amount + 1 : amount;
        if (balanceOf[from] < taken) revert ERC20InsufficientBalance(from, balanceOf[from], taken);
        balanceOf[from] -= taken;
        balanceOf[to] += ways == Ways.KeepingOne ? amount - 1 : amount;
        if (ways == Ways.Silent) _return(0, 0);
        if (ways == Ways.Muttering) _return(1, 1);
        _return(1, 32);
    }

    function _return(uint256 word, uint256 size) private pure {
        assembly ("memory-safe") {
            mstore(0, word)
            return(0, size)
        }
    }
}
