// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Names of nodes, the certificates they show and where they listen
/// @notice Whoever registers a name first owns it, and only its owner changes it. A node has two fingerprints, so that a
/// certificate is exchanged without an outage: announce the next one, show it, then drop the old one.
contract Registry {
    /// @notice A name has 1 to 63 of the characters a to z, 0 to 9, hyphen, dot and underscore.
    error WrongName(string name);

    /// @notice An endpoint has 1 to 255 bytes.
    error WrongEndpoint(string endpoint);

    /// @notice A fingerprint must not be zero.
    error NoFingerprint(string name);

    /// @notice The name has an owner.
    error NameTaken(string name, address owner);

    /// @notice The name has another owner, or none.
    error NotOwner(string name, address owner);

    /// @notice No next fingerprint was announced.
    error NothingAnnounced(string name);

    /// @notice A name must not be given to the address zero.
    error NoOwner(string name);

    /// @notice A node is now this.
    /// @param nameHash The hash of its name, to look for it
    event NodeChanged(
        bytes32 indexed nameHash,
        string name,
        address indexed owner,
        bytes32 currentFingerprint,
        bytes32 nextFingerprint,
        string endpoint
    );

    /// @notice What is known of a node.
    struct Node {
        address owner;
        bytes32 currentFingerprint;
        bytes32 nextFingerprint;
        string endpoint;
    }

    uint256 private constant NAME_BYTES_MAX = 63;
    uint256 private constant ENDPOINT_BYTES_MAX = 255;

    mapping(string name => Node node) private _nodes;

    /// @notice Register a name; the caller owns it.
    /// @param name The node's name
    /// @param fingerprint The SHA-256 of the certificate that it shows
    /// @param endpoint Where it listens
    function register(string calldata name, bytes32 fingerprint, string calldata endpoint) external {
        address owner = _nodes[name].owner;
        if (owner != address(0)) revert NameTaken(name, owner);
        if (!_isName(bytes(name))) revert WrongName(name);
        if (fingerprint == 0) revert NoFingerprint(name);
        _nodes[name].owner = msg.sender;
        _nodes[name].currentFingerprint = fingerprint;
        _setEndpoint(_nodes[name], endpoint);
        _tell(name);
    }

    /// @notice Announce the certificate that the node will show next: from now on both are good. Zero takes the
    /// announcement back.
    /// @param name The node's name
    /// @param fingerprint The SHA-256 of the next certificate
    function announce(string calldata name, bytes32 fingerprint) external {
        _own(name).nextFingerprint = fingerprint;
        _tell(name);
    }

    /// @notice The announced certificate takes the place of the old one, which is good no longer.
    /// @param name The node's name
    function rotate(string calldata name) external {
        Node storage node = _own(name);
        if (node.nextFingerprint == 0) revert NothingAnnounced(name);
        node.currentFingerprint = node.nextFingerprint;
        node.nextFingerprint = 0;
        _tell(name);
    }

    /// @notice The node listens elsewhere.
    /// @param name The node's name
    /// @param endpoint Where it listens now
    function move(string calldata name, string calldata endpoint) external {
        _setEndpoint(_own(name), endpoint);
        _tell(name);
    }

    /// @notice Give the name to another owner.
    /// @param name The node's name
    /// @param owner Who owns it from now on
    function give(string calldata name, address owner) external {
        Node storage node = _own(name);
        if (owner == address(0)) revert NoOwner(name);
        node.owner = owner;
        _tell(name);
    }

    /// @notice What is known of a node; its owner is the address zero when nobody has registered the name.
    /// @param name The node's name
    function nodeOf(string calldata name) external view returns (Node memory) {
        return _nodes[name];
    }

    function _own(string calldata name) private view returns (Node storage node) {
        node = _nodes[name];
        if (node.owner != msg.sender) revert NotOwner(name, node.owner);
    }

    function _setEndpoint(Node storage node, string calldata endpoint) private {
        uint256 length = bytes(endpoint).length;
        if (length == 0 || length > ENDPOINT_BYTES_MAX) revert WrongEndpoint(endpoint);
        node.endpoint = endpoint;
    }

    function _tell(string calldata name) private {
        Node storage node = _nodes[name];
        emit NodeChanged(
            keccak256(bytes(name)), name, node.owner, node.currentFingerprint, node.nextFingerprint, node.endpoint
        );
    }

    /// @dev Few characters, so that no two names look the same.
    function _isName(bytes calldata name) private pure returns (bool) {
        if (name.length == 0 || name.length > NAME_BYTES_MAX) return false;
        for (uint256 i = 0; i < name.length; ++i) {
            bytes1 c = name[i];
            bool isLetter = c >= "a" && c <= "z";
            bool isDigit = c >= "0" && c <= "9";
            if (!isLetter && !isDigit && c != "-" && c != "." && c != "_") return false;
        }
        return true;
    }
}
