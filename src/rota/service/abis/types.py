"""Decoding and party addresses: `service.interface.Types` on this node's store and keys.

Every ABI that a user stores or submits is kept; its functions, events and errors are found by their selector or topic.
Two entries may share one: the first that fits the bytes is used.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, cast

import msgspec

from rota.abi import codec
from rota.abi.codec import PANIC, SELECTOR_BYTES, TEXT_ERROR, Entry, Style
from rota.domains.base import party_of
from rota.model.types import NodeName, Party, Rejected, node_of
from rota.ports import AbiStore, StoredAbi, Unavailable
from rota.rpc import errors
from rota.service.asking import read_query
from rota.service.interface import AbiEntry, AbiView, Decoded, JsonValue
from rota.service.keys.verifiers import PartyVerifiers, require_known

# The code that clients expect for an event of an unknown ABI, which is no fault.
NO_EVENT: Final = "PD012229"

NoteParty = Callable[[Party], Awaitable[object]]


class Types:
    """`service.interface.Types`."""

    def __init__(self, node: NodeName, store: AbiStore, verifiers: PartyVerifiers, note: NoteParty) -> None:
        self._node: Final = node
        self._store: Final = store
        self._verifiers: Final = verifiers
        self._note: Final = note

    # ABIs.

    async def store_abi(self, abi: Sequence[AbiEntry]) -> bytes:
        """Store an ABI; returns the hash that identifies it."""
        return await self._store.add(read_abi(abi, "abi"))

    async def stored_abi(self, hash_: bytes) -> AbiView | None:
        """Return the ABI with this hash."""
        found = await self._store.get(hash_)
        return _view(found) if found is not None else None

    async def query_abis(self, query: JsonValue) -> tuple[AbiView, ...]:
        """Return the ABIs that a QueryJSON matches."""
        try:
            return tuple(_view(found) for found in await self._store.find(read_query(query)))
        except Rejected as flaw:
            raise errors.invalid(flaw.field, flaw.message) from None

    # Decoding.

    async def decode_call(self, call_data: bytes, data_format: str) -> Decoded:
        """Decode call data with the stored ABIs."""
        style = _style(data_format)
        known = await self._store.entries("function", call_data[:SELECTOR_BYTES])
        decoded = _first(known, style, lambda entry: codec.decode_call(entry, call_data, "callData", style), call_data)
        if decoded is None:
            raise errors.invalid("callData", f"no ABI that is stored has a function 0x{_head(call_data)}")
        return decoded

    async def decode_error(self, revert_data: bytes, data_format: str) -> Decoded:
        """Decode revert data: Solidity's own errors, or those of the stored ABIs."""
        style = _style(data_format)
        known = (TEXT_ERROR, PANIC, *await self._store.entries("error", revert_data[:SELECTOR_BYTES]))
        decoded = _first(
            known, style, lambda entry: codec.decode_call(entry, revert_data, "revertData", style), revert_data
        )
        if decoded is None:
            raise errors.invalid("revertData", f"no ABI that is stored has an error 0x{_head(revert_data)}")
        return decoded

    async def decode_event(self, topics: Sequence[bytes], data: bytes, data_format: str) -> Decoded:
        """Decode an event with the stored ABIs."""
        style = _style(data_format)
        known = await self._store.entries("event", topics[0]) if topics else ()
        decoded = _first(known, style, lambda entry: codec.decode_event(entry, topics, data, "topics", style))
        if decoded is None:
            which = f"0x{topics[0].hex()}" if topics else "without topics"
            raise errors.invalid("topics", f"{NO_EVENT}: no ABI that is stored has an event {which} of this form")
        return decoded

    # Parties.

    async def resolve_verifier(self, identifier: str, algorithm: str, verifier_type: str) -> str:
        """Return the verifier of a party; another node is asked for those of its parties."""
        try:
            require_known(algorithm, verifier_type)
            party = party_of("keyIdentifier", identifier, self._node)
            verifier = await self._verifiers.of(party, algorithm, verifier_type)
        except Rejected as flaw:
            raise errors.invalid(flaw.field, flaw.message) from None
        if not verifier:
            raise errors.invalid("keyIdentifier", f"{node_of(party)} has no party {party}")
        if node_of(party) == self._node:
            # A user of this node uses the party, which announces it. If this cannot be written now, the next use does.
            with suppress(Unavailable):
                await self._note(party)
        return verifier


def read_abi(given: Sequence[AbiEntry], field: str) -> tuple[Entry, ...]:
    """Parse an ABI from a client. `errors.Rejected` names the entry that is wrong."""
    try:
        return codec.entries_of(given, field)
    except Rejected as flaw:
        raise errors.invalid(flaw.field, flaw.message) from None


def _style(data_format: str) -> Style:
    try:
        return Style.parse(data_format, "dataFormat")
    except Rejected as flaw:
        raise errors.invalid(flaw.field, flaw.message) from None


def _first(
    known: Iterable[Entry], style: Style, shown: Callable[[Entry], object], content: bytes | None = None
) -> Decoded | None:
    """Decode with the first entry that fits."""
    for entry in known:
        try:
            values = shown(entry)
            summary = codec.summary_of(entry, content[SELECTOR_BYTES:]) if content is not None else entry.signature
        except Rejected:
            continue
        return Decoded(style.text(values), summary, cast(AbiEntry, codec.definition_of(entry)), entry.signature)
    return None


def _view(stored: StoredAbi) -> AbiView:
    return AbiView(stored.hash, tuple(msgspec.json.decode(stored.written)))


def _head(content: bytes) -> str:
    return content[:SELECTOR_BYTES].hex()
