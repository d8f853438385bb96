// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ITreeHasher} from "./ITreeHasher.sol";

/// @title The registered owners of a ledger's coins
/// @notice The issuer registers the public keys of owners (KYC). Each proof shows that the owner of its inputs and the
/// owners of its outputs are registered, and not which of them they are.
///
/// @dev The *identity* of an owner is the hash of its public key with a mark, P'(x, y, 0, 1). Identities are the leaves of
/// a tree with four children a node and always `LEVELS` levels, so that no node passes for an identity. They stay: there
/// is no revocation. So the root of any time is that of registered owners, and all roots count. Nobody but the issuer can
/// add one, and no proof becomes worthless while others are registered.
///
/// The root that a proof is for stands before it, and is the public input before the binding:
///
///     auth = per full leaf: ... | identities root 32 | proof 256
///
/// Coins that the issuer makes by its signature show no proof: whose they are the issuer alone has judged. An owner that
/// is not registered cannot spend them. What no circuit of such tokens takes, more than two inputs or outputs, is
/// malformed.
abstract contract Identities {
    /// @notice The key is registered already.
    error AlreadyRegistered(uint256[2] publicKey);

    /// @notice This is no key: not a point of BabyJubJub, or its zero, which everybody has the secret of.
    error NotKey(uint256[2] publicKey);

    /// @notice The transition shows no root of identities before its proof.
    error NoIdentitiesRoot(uint256 position);

    /// @notice There is no hasher at this address.
    error NoHasher(address hasher);

    /// @notice There is no room for more owners.
    error IdentitiesFull();

    /// @notice From now on this key can own coins. `data` is what the registrar wrote beside it, for all to read.
    event IdentityRegistered(uint256[2] publicKey, bytes data);

    /// @notice Hashes the nodes of the tree of identities.
    ITreeHasher public immutable identityHasher;

    uint256 private constant LEVELS = 10;
    uint256 private constant ROOM = 4 ** LEVELS;
    uint256 private constant FOUR = 4;
    uint256 private constant PAGE = 1024;
    uint256 private constant MARK = 1;
    uint256 private constant FIELD_ORDER =
        21888242871839275222246405745257275088548364400416034343698204186575808495617;
    uint256 private constant SIGNATURE = 64;
    uint256 private constant ROOT_AND_PROOF_BYTES = 32 + 256;

    /// @dev BabyJubJub (EIP-2494): a x² + y² = 1 + d x² y².
    uint256 private constant CURVE_A = 168700;
    uint256 private constant CURVE_D = 168696;

    /// @dev In the order of registration; what is registered; what was ever the root; and of each level of the tree the
    /// right edge, three complete nodes at most.
    uint256[] private _identities;
    mapping(uint256 identity => bool isThere) private _isIdentity;
    mapping(uint256 root => bool wasThere) private _isRoot;
    mapping(uint256 level => uint256[3] nodes) private _identityEdge;
    uint256 private _identitiesRoot;

    constructor(ITreeHasher hasher) {
        if (address(hasher).code.length == 0) revert NoHasher(address(hasher));
        identityHasher = hasher;
    }

    /// @notice Register an owner, for ever.
    /// @dev Whoever sends this has the issuer's signature with him: 64 bytes behind all that the ABI says, of the hash of
    /// this ledger's domain and all that stands before them, as for `setERC20`.
    /// @param publicKey The point that owns coins: x and y on BabyJubJub
    /// @param data Anything; it is told in the event and kept nowhere
    function register(uint256[2] calldata publicKey, bytes calldata data) external {
        uint256 end = msg.data.length - SIGNATURE;
        _requireRegistrar(msg.data[:end], msg.data[end:]);
        if (!_isKey(publicKey[0], publicKey[1])) revert NotKey(publicKey);
        uint256 identity = _identityOf(publicKey);
        if (_isIdentity[identity]) revert AlreadyRegistered(publicKey);
        uint256 position = _identities.length;
        if (position == ROOM) revert IdentitiesFull();
        _isIdentity[identity] = true;
        _identities.push(identity);
        uint256 root = _rootWith(identity, position);
        _isRoot[root] = true;
        _identitiesRoot = root;
        emit IdentityRegistered(publicKey, data);
    }

    /// @notice Whether a key is registered.
    /// @param publicKey x and y
    function isRegistered(uint256[2] calldata publicKey) external view returns (bool) {
        return _isKey(publicKey[0], publicKey[1]) && _isIdentity[_identityOf(publicKey)];
    }

    /// @notice The root of the tree of all identities; zero while there are none.
    function getIdentitiesRoot() external view returns (uint256) {
        return _identitiesRoot;
    }

    /// @notice Whether this is, or once was, the root of the tree of identities.
    /// @param root The root
    function isIdentitiesRoot(uint256 root) external view returns (bool) {
        return _isRoot[root];
    }

    /// @notice The identities from a place on, as many as one answer has, with the root and the number of all.
    /// @param first How many to pass over
    function identities(uint256 first)
        external
        view
       
        returns (uint256 root, uint256 count, uint256[] memory page)
    {
        (root, count) = (_identitiesRoot, _identities.length);
        if (first >= count) return (root, count, page);
        page = new uint256[](count - first < PAGE ? count - first : PAGE);
        for (uint256 i = 0; i < page.length; ++i) page[i] = _identities[first + i];
    }

    /// @dev Reverts unless the issuer has permitted this call.
    /// @param signed All of the call that stands before the signature
    function _requireRegistrar(bytes calldata signed, bytes calldata signature) internal view virtual;

    /// @dev The root of identities that stands before the proof at the end of what a leaf shows: itself when it never was
    /// the root, zero when it was.
    function _lackingRoot(uint256 position, bytes calldata shown) internal view returns (bytes32 root) {
        uint256 length = shown.length;
        if (length < ROOT_AND_PROOF_BYTES) revert NoIdentitiesRoot(position);
        root = bytes32(shown[length - ROOT_AND_PROOF_BYTES:length - ROOT_AND_PROOF_BYTES + 32]);
        // Zero is the root of nothing, and would tell that nothing is lacking.
        if (root == 0) revert NoIdentitiesRoot(position);
        return _isRoot[uint256(root)] ? bytes32(0) : root;
    }

    /// @dev Numbers of the field that are on the curve. With x = 0 there are two points, both of small order; one is the
    /// zero, the key of the scalar 0. No other point of small order has a scalar.
    function _isKey(uint256 x, uint256 y) private pure returns (bool) {
        if (x == 0 || x >= FIELD_ORDER || y >= FIELD_ORDER) return false;
        uint256 xx = mulmod(x, x, FIELD_ORDER);
        uint256 yy = mulmod(y, y, FIELD_ORDER);
        uint256 left = addmod(mulmod(CURVE_A, xx, FIELD_ORDER), yy, FIELD_ORDER);
        return left == addmod(1, mulmod(CURVE_D, mulmod(xx, yy, FIELD_ORDER), FIELD_ORDER), FIELD_ORDER);
    }

    function _identityOf(uint256[2] calldata key) private view returns (uint256) {
        uint256[] memory children = new uint256[](FOUR);
        (children[0], children[1], children[3]) = (key[0], key[1], MARK);
        return identityHasher.hash(children)[0];
    }

    /// @dev The root of the tree to which an identity is added at the right. Keeps the nodes that are complete with it and
    /// whose parents are not.
    function _rootWith(uint256 identity, uint256 position) private returns (uint256 node) {
        node = identity;
        bool isComplete = true;
        for (uint256 level = 0; level < LEVELS; ++level) {
            uint256 place = position % FOUR;
            uint256[] memory children = new uint256[](FOUR);
            for (uint256 i = 0; i < place; ++i) children[i] = _identityEdge[level][i];
            children[place] = node;
            if (isComplete && place != FOUR - 1) {
                _identityEdge[level][place] = node;
                isComplete = false;
            }
            node = identityHasher.hash(children)[0];
            position /= FOUR;
        }
    }
}
