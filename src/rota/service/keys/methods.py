"""Keys of this node's parties: their addresses, their identifiers, and their signatures."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from rota.rpc.credentials import Role
from rota.rpc.formats import Address, HexText, hex_of
from rota.rpc.methods import method
from rota.rpc.query_json import QueryJson
from rota.service.keys import interface
from rota.service.keys.interface import HasKeys

Identifier = Annotated[str, Meta(description="A name such as alice or org.alice, of this node")]
Algorithm = Annotated[str, Meta(description="ecdsa:secp256k1")]
VerifierType = Annotated[
    str,
    Meta(
        description="eth_address, eth_address_checksum, hex_ecdsa_pubkey_uncompressed or "
        "hex_ecdsa_pubkey_uncompressed_0x"
    ),
]


class KeyPathSegment(msgspec.Struct, frozen=True):
    """One segment of an identifier's path."""

    name: str
    index: int


class KeyVerifier(msgspec.Struct, frozen=True):
    """The public form of a key."""

    verifier: str
    type: str
    algorithm: str


class KeyMappingAndVerifier(msgspec.Struct, frozen=True, rename="camel"):
    """An identifier, the location of its key, and its verifier. `keyHandle` is the path in the node's wallet."""

    identifier: str
    wallet: str
    key_handle: str
    path: list[KeyPathSegment]
    verifier: KeyVerifier


class KeyQueryEntry(msgspec.Struct, frozen=True, rename="camel"):
    """A node in the tree of identifiers: a key, a branch, or both."""

    is_key: bool
    has_children: bool
    parent: str
    path: str
    name: str
    index: int
    wallet: str
    key_handle: str
    verifiers: list[KeyVerifier]


@method("keymgr_wallets", role=Role.READ, answers="wallets")
async def wallets(node: HasKeys) -> Annotated[list[str], Meta(description="Their names")]:
    """List the wallets of this node."""
    return [*node.keys.wallets()]


@method("keymgr_resolveKey", role=Role.SUBMIT, answers="mapping")
async def resolve_key(
    node: HasKeys, key_identifier: Identifier, algorithm: Algorithm, verifier_type: VerifierType
) -> Annotated[KeyMappingAndVerifier, Meta(description="The key")]:
    """Return the key of an identifier. Every name has one key, which never changes."""
    return _mapping(await node.keys.resolve(key_identifier, algorithm, verifier_type))


@method("keymgr_resolveEthAddress", role=Role.SUBMIT, answers="ethAddress")
async def resolve_eth_address(
    node: HasKeys, key_identifier: Identifier
) -> Annotated[Address, Meta(description="The address")]:
    """Return the Ethereum address of an identifier, for public transactions and for private ones in every contract."""
    found = await node.keys.resolve(key_identifier, "ecdsa:secp256k1", "eth_address")
    return Address(found.verifier.verifier)


@method("keymgr_reverseKeyLookup", role=Role.READ, answers="mapping")
async def reverse_key_lookup(
    node: HasKeys,
    algorithm: Algorithm,
    verifier_type: VerifierType,
    verifier: Annotated[str, Meta(description="The address")],
) -> Annotated[KeyMappingAndVerifier | None, Meta(description="The key; null when none of this address was used")]:
    """Return the identifier of an address, if it was resolved or used at this node before."""
    found = await node.keys.reverse(algorithm, verifier_type, verifier)
    return _mapping(found) if found is not None else None


@method("keymgr_queryKeys", role=Role.READ, answers="keys")
async def query_keys(
    node: HasKeys, query: QueryJson
) -> Annotated[list[KeyQueryEntry], Meta(description="By their paths, if no other order is asked for")]:
    """Query identifiers resolved or used so far. Fields: path, parent, name, index, isKey, hasChildren, keyHandle."""
    return [
        KeyQueryEntry(
            entry.is_key,
            entry.has_children,
            entry.parent,
            entry.path,
            entry.name,
            entry.index,
            entry.wallet,
            entry.handle,
            [_verifier(each) for each in entry.verifiers],
        )
        for entry in await node.keys.query(query)
    ]


@method("keymgr_sign", role=Role.SUBMIT, answers="signature")
async def sign(
    node: HasKeys,
    key_identifier: Identifier,
    algorithm: Algorithm,
    verifier_type: VerifierType,
    payload_type: Annotated[str, Meta(description="opaque:rsv")],
    payload: Annotated[HexText, Meta(description="A hash of 32 bytes, which is signed as it is")],
) -> Annotated[HexText, Meta(description="65 bytes: r, s, and v, which is 27 or 28")]:
    """A signature by the key of an identifier."""
    signature = await node.keys.sign(key_identifier, algorithm, verifier_type, payload_type, payload.content)
    return hex_of(signature)


def _mapping(found: interface.KeyMapping) -> KeyMappingAndVerifier:
    segments = [KeyPathSegment(each.name, each.index) for each in found.path]
    return KeyMappingAndVerifier(found.identifier, found.wallet, found.handle, segments, _verifier(found.verifier))


def _verifier(found: interface.KeyVerifier) -> KeyVerifier:
    return KeyVerifier(found.verifier, found.type, found.algorithm)


METHODS: Final = (wallets, resolve_key, resolve_eth_address, reverse_key_lookup, query_keys, sign)
