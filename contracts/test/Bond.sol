// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Atom} from "./Atom.sol";

struct PreparedTransaction {
    address contractAddress;
    bytes encodedCall;
}

struct UnlockRecipient {
    address to;
    uint256 amount;
}

/// @title The hook of a bond's token, in a group of issuer and custodian: who holds how many units
contract BondTracker {
    event PenteExternalCall(address indexed contractAddress, bytes encodedCall);

    address public immutable custodian;

    bool public isIssued;
    bool public isDistributing;
    mapping(address account => bool is_) public isInvestor;
    mapping(address account => uint256 units) public balanceOf;
    mapping(bytes32 lockId => address owner) private _ownerOf;

    modifier onlyCustodian() {
        require(msg.sender == custodian, "only the custodian calls this");
        _;
    }

    constructor(address custodian_) {
        custodian = custodian_;
    }

    function beginDistribution() external onlyCustodian {
        require(isIssued, "the bond is not issued");
        isDistributing = true;
    }

    function addInvestor(address account) external onlyCustodian {
        isInvestor[account] = true;
    }

    /// @notice As `INotoHooks`: the whole bond, once, for the custodian.
    function onMint(address, address to, uint256 amount, bytes calldata, PreparedTransaction calldata prepared)
        external
        onlyCustodian
    {
        require(!isIssued, "the bond is issued already");
        require(to == custodian, "a bond is issued to its custodian");
        isIssued = true;
        balanceOf[to] = amount;
        emit PenteExternalCall(prepared.contractAddress, prepared.encodedCall);
    }

    /// @notice As `INotoHooks`.
    function onCreateTransferLock(
        address,
        bytes32 lockId,
        address from,
        uint256,
        UnlockRecipient[] calldata recipients,
        bytes calldata,
        PreparedTransaction calldata prepared
    ) external onlyCustodian {
        require(isDistributing, "the bond is not distributed yet");
        for (uint256 n = 0; n < recipients.length; ++n) {
            require(isInvestor[recipients[n].to], "the receiver is no investor of this bond");
        }
        _ownerOf[lockId] = from;
        emit PenteExternalCall(prepared.contractAddress, prepared.encodedCall);
    }

    /// @notice As `INotoHooks`.
    function onDelegateLock(address, bytes32, address, PreparedTransaction calldata prepared) external onlyCustodian {
        emit PenteExternalCall(prepared.contractAddress, prepared.encodedCall);
    }

    /// @notice As `INotoHooks`: the sale was settled, or called off.
    function handleDelegateUnlock(address, bytes32 lockId, UnlockRecipient[] calldata recipients, bytes calldata)
        external
        onlyCustodian
    {
        for (uint256 n = 0; n < recipients.length; ++n) {
            balanceOf[_ownerOf[lockId]] -= recipients[n].amount;
            balanceOf[recipients[n].to] += recipients[n].amount;
        }
    }
}

/// @title What an investor and the custodian agree on, in a group of these two: so many units for a payment
contract BondSubscription {
    event PenteExternalCall(address indexed contractAddress, bytes encodedCall);

    address public immutable custodian;
    address public immutable factory;
    uint256 public immutable units;
    address public immutable investor;

    Atom.Operation private _payment;
    Atom.Operation private _bond;

    constructor(address custodian_, address factory_, uint256 units_) {
        (investor, custodian, factory, units) = (msg.sender, custodian_, factory_, units_);
    }

    function preparePayment(address token, bytes calldata call) external {
        require(msg.sender == investor, "only the investor pays");
        _payment = Atom.Operation(token, call);
    }

    function prepareBond(address token, bytes calldata call) external {
        require(msg.sender == custodian, "only the custodian delivers");
        _bond = Atom.Operation(token, call);
    }

    /// @notice Both legs are prepared: a public contract gets them, to make both calls or none.
    function distribute() external {
        require(_payment.contractAddress != address(0), "the payment is not prepared");
        require(_bond.contractAddress != address(0), "the bond is not prepared");
        Atom.Operation[] memory operations = new Atom.Operation[](2);
        (operations[0], operations[1]) = (_payment, _bond);
        emit PenteExternalCall(factory, abi.encodeCall(AtomFactory.create, (operations)));
    }
}

/// @title Makes an atom of operations, as a public contract that private contracts can call
contract AtomFactory {
    event AtomDeployed(address addr);

    function create(Atom.Operation[] calldata operations) external {
        emit AtomDeployed(address(new Atom(operations, new address[](0))));
    }
}
