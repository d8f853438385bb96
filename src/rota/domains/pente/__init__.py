"""Privacy groups: members deploy and call ordinary Solidity contracts that nobody else sees."""
