"""ABIs, decoding with them, and the addresses of parties on the chain."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from rota.rpc.credentials import Role
from rota.rpc.formats import HexText, Word, word_of
from rota.rpc.methods import method
from rota.rpc.query_json import QueryJson
from rota.service.interface import AbiView, Decoded, HasTypes
from rota.service.submissions.formats import Abi, Text

TOPICS_MAX: Final = 4

Topics = Annotated[list[Word], Meta(max_length=TOPICS_MAX, description="The topics of the event")]
DataFormat = Annotated[
    Text,
    Meta(
        description="How values are written, as a URL query: mode (object, array, self-describing), number (string, "
        "hex, json-number), bytes (hex, hex-plain, base64), address (hex, hex-plain, checksum), pretty"
    ),
]
DEFAULT: Final = ""


class StoredABI(msgspec.Struct, frozen=True):
    """An ABI, and the hash that identifies it."""

    hash: Word
    abi: list[dict[str, Any]]


class DecodedBytes(msgspec.Struct, frozen=True):
    """Decoded bytes."""

    data: msgspec.Raw
    summary: str
    definition: dict[str, Any]
    signature: str


@method("ptx_storeABI", role=Role.SUBMIT, answers="hashRef")
async def store_abi(
    node: HasTypes, abi: Annotated[Abi, Meta(description="The entries of the ABI")]
) -> Annotated[Word, Meta(description="Its hash, which a transaction may name as abiReference")]:
    """Store an ABI. The node can then decode its functions, events and errors."""
    return word_of(await node.types.store_abi(abi))


@method("ptx_getStoredABI", role=Role.READ, answers="storedABI")
async def get_stored_abi(
    node: HasTypes, hash_ref: Annotated[Word, Meta(description="The hash of an ABI")]
) -> Annotated[StoredABI | None, Meta(description="The ABI; null when none of this hash was stored")]:
    """Return an ABI that was stored, or submitted with a transaction."""
    found = await node.types.stored_abi(hash_ref.content)
    return _shown_abi(found) if found is not None else None


@method("ptx_queryStoredABIs", role=Role.READ, answers="storedABIs")
async def query_stored_abis(
    node: HasTypes, query: QueryJson
) -> Annotated[list[StoredABI], Meta(description="The ABIs, latest first unless sorted")]:
    """Query stored ABIs. Fields: hash, created."""
    return [_shown_abi(found) for found in await node.types.query_abis(query)]


@method("ptx_decodeCall", role=Role.READ, answers="decodedCall")
async def decode_call(
    node: HasTypes,
    call_data: Annotated[HexText, Meta(description="The data of a call: a selector and values")],
    data_format: DataFormat = DEFAULT,
) -> Annotated[DecodedBytes, Meta(description="The function, and the values that it is called with")]:
    """Decode call data with the stored ABIs."""
    return _shown_data(await node.types.decode_call(call_data.content, data_format))


@method("ptx_decodeEvent", role=Role.READ, answers="decodedEvent")
async def decode_event(
    node: HasTypes,
    topics: Topics,
    data: Annotated[HexText, Meta(description="What the event has beside its topics")],
    data_format: DataFormat = DEFAULT,
) -> Annotated[DecodedBytes, Meta(description="The event, and its values")]:
    """Decode an event with the stored ABIs. The error has PD012229 when none of them matches."""
    words = [topic.content for topic in topics]
    return _shown_data(await node.types.decode_event(words, data.content, data_format))


@method("ptx_decodeError", role=Role.READ, answers="decodedError")
async def decode_error(
    node: HasTypes,
    revert_data: Annotated[HexText, Meta(description="What a contract reverted with")],
    data_format: DataFormat = DEFAULT,
) -> Annotated[DecodedBytes, Meta(description="The error, and its values")]:
    """Decode revert data: Solidity's own errors, and those of the stored ABIs."""
    return _shown_data(await node.types.decode_error(revert_data.content, data_format))


@method("ptx_resolveVerifier", role=Role.READ, answers="verifier")
async def resolve_verifier(
    node: HasTypes,
    key_identifier: Annotated[Text, Meta(description="A party, as alice or bob@node2")],
    algorithm: Annotated[Text, Meta(description="ecdsa:secp256k1, or domain:zeto:snark:babyjubjub")],
    verifier_type: Annotated[
        Text,
        Meta(
            description="For ecdsa:secp256k1 eth_address, eth_address_checksum, hex_ecdsa_pubkey_uncompressed or "
            "hex_ecdsa_pubkey_uncompressed_0x; for BabyJubJub iden3_pubkey_babyjubjub_compressed_0x"
        ),
    ],
) -> Annotated[str, Meta(description="The party's address, its public key, or the key that owns its coins")]:
    """Return the verifier of a party. The node asks another node for the addresses of its parties and, in a token that
    both nodes have, for the keys of their coins; it gets no public keys of other nodes.
    """
    return await node.types.resolve_verifier(key_identifier, algorithm, verifier_type)


def _shown_abi(view: AbiView) -> StoredABI:
    return StoredABI(word_of(view.hash), [dict(entry) for entry in view.abi])


def _shown_data(decoded: Decoded) -> DecodedBytes:
    return DecodedBytes(
        msgspec.Raw(decoded.data.encode("utf-8", "replace")),
        decoded.summary,
        dict(decoded.definition),
        decoded.signature,
    )


METHODS: Final = (
    store_abi,
    get_stored_abi,
    query_stored_abis,
    decode_call,
    decode_event,
    decode_error,
    resolve_verifier,
)
