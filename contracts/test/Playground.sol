// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title What a private contract may do, good and bad
contract Playground {
    error Refused(uint256 code, string text);

    event Stored(uint256 indexed value, string text);
    event PenteExternalCall(address indexed contractAddress, bytes encodedCall);

    struct Item {
        uint256 id;
        string name;
        address[] owners;
    }

    uint256 public stored;
    address public creator;
    address public child;
    Item[] private items;
    mapping(uint256 key => uint256 value) public filled;

    constructor(uint256 initial) {
        if (initial == 666) revert Refused(initial, "not this one");
        stored = initial;
        creator = msg.sender;
    }

    function store(uint256 num) external {
        stored = num;
        emit Stored(num, "stored");
    }

    function retrieve() external view returns (uint256 value) {
        return stored;
    }

    function pair() external view returns (uint256, address named) {
        return (stored, creator);
    }

    function addItem(Item calldata item) external returns (uint256) {
        items.push(item);
        return items.length;
    }

    function allItems() external view returns (Item[] memory) {
        return items;
    }

    function whoAndWhen() external view returns (address sender, uint256 number, uint256 time, uint256 chain) {
        return (msg.sender, block.number, block.timestamp, block.chainid);
    }

    // Failures.

    function failWithText() external pure {
        require(false, "no, never");
    }

    function failWithError(uint256 code) external pure {
        revert Refused(code, "because");
    }

    function failWithPanic(uint256 divisor) external pure returns (uint256) {
        return 1 / divisor;
    }

    function failSilently() external pure {
        assembly ("memory-safe") {
            revert(0, 0)
        }
    }

    function loopForever() external pure {
        while (true) {}
    }

    function breakRule() external pure {
        assembly ("memory-safe") {
            invalid()
        }
    }

    // Storage.

    function fill(uint256 first, uint256 count, uint256 value) external {
        for (uint256 n = 0; n < count; ++n) filled[first + n] = value;
    }

    function shout(uint256 count, uint256 size) external {
        for (uint256 n = 0; n < count; ++n) emit Stored(n, string(new bytes(size)));
    }

    function take(bytes calldata input) external {
        stored = input.length;
    }

    // Other accounts.

    function make(bytes memory code) public returns (address made) {
        assembly ("memory-safe") {
            made := create(0, add(code, 0x20), mload(code))
        }
        child = made;
    }

    function makeAt(bytes32 salt, bytes memory code) external returns (address made) {
        assembly ("memory-safe") {
            made := create2(0, add(code, 0x20), mload(code), salt)
        }
        child = made;
    }

    function makeMany(uint256 count, bytes memory code) external {
        for (uint256 n = 0; n < count; ++n) make(code);
    }

    function makeAndCall(bytes memory code) external {
        (bool isDone,) = make(code).call("");
        stored = isDone ? 3 : 4;
    }

    function callIt(address other) external {
        (bool isDone,) = other.call("");
        stored = isDone ? 5 : 6;
    }

    function storeIn(Playground other, uint256 num) external {
        other.store(num);
    }

    function readFrom(Playground other) external {
        stored = other.retrieve();
    }

    function tryStoreIn(address other, uint256 num) external returns (bool isDone) {
        (isDone,) = other.call(abi.encodeCall(this.storeAndFail, (num)));
        stored = isDone ? 1 : 2;
    }

    function storeAndFail(uint256 num) external {
        stored = stored + num;
        revert Refused(num, "undone");
    }

    function sizeOf(address other) external returns (uint256 size) {
        size = other.code.length;
        stored = size;
    }

    function pay(address payable other) external {
        (bool isDone,) = other.call{value: 1}("");
        require(isDone, "nothing to pay with");
    }

    // Precompiled contracts.

    function hashes(bytes calldata input) external returns (bytes32 hashed, bytes20 ripe, address signer) {
        hashed = sha256(input);
        ripe = ripemd160(input);
        signer = ecrecover(keccak256(input), 27, bytes32(uint256(1)), bytes32(uint256(1)));
        stored = uint256(hashed);
    }

    // The public ledger.

    function callOutside(address target, bytes calldata input, uint256 count) external {
        stored = count;
        for (uint256 n = 0; n < count; ++n) emit PenteExternalCall(target, input);
    }
}
