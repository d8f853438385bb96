"""Keys by their identifiers: `service.interface.Keys` on this node's signer and store.

Every party of a node has a key, whatever its name, and its address follows from the node's wallet (`keys.names`). The
store only records the resolved parties, so that an address can be mapped back to an identifier, and identifiers can be
queried. An identifier is the party's name without its node; dots make a tree of them, as `org.alice` under `org`.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

from rota.domains.base import Rejected as DomainRejected
from rota.domains.base import party_of
from rota.keys.derivation import write_path
from rota.keys.names import party_key, path_of
from rota.keys.secp256k1 import address_of
from rota.model.types import ContractAddress, NodeName, Party, node_of
from rota.ports import KeyHolder, KeyNames, StoredKey, UnknownKey
from rota.rpc import errors
from rota.rpc.formats import Address, read
from rota.rpc.values import JsonValue
from rota.service.asking import of_query, read_query
from rota.service.keys.interface import KeyEntry, KeyMapping, KeySegment, KeyVerifier
from rota.service.keys.verifiers import ETH_ADDRESS, PUBLIC_KEY, PUBLIC_KEY_0X, SECP256K1, require_known, written

WALLET: Final = "wallet"
PAYLOAD_TYPE: Final = "opaque:rsv"
PAYLOAD_BYTES: Final = 32
PUBLIC_KEY_BYTES: Final = 64
# The base of the recovery id in a signature's last byte, as wallets write it.
RECOVERY_BASE: Final = 27
SEGMENTS_MAX: Final = 16
NOTED_KEPT_MAX: Final = 4_096


class Keys:
    """`service.interface.Keys`."""

    def __init__(self, node: NodeName, signer: KeyHolder, names: KeyNames) -> None:
        self._node: Final = node
        self._signer: Final = signer
        self._names: Final = names
        self._noted: Final[OrderedDict[str, StoredKey]] = OrderedDict()
        self._turn: Final = asyncio.Lock()

    def wallets(self) -> tuple[str, ...]:
        """Return the node's wallet, of which there is one."""
        return (WALLET,)

    async def resolve(self, identifier: str, algorithm: str, verifier_type: str) -> KeyMapping:
        """Return the key of this identifier, and record it."""
        _require(algorithm, verifier_type)
        key = await self._note(self._own_party(identifier))
        return await self._mapping(key, verifier_type)

    async def reverse(self, algorithm: str, verifier_type: str, verifier: str) -> KeyMapping | None:
        """Return the key that has this address, if it was resolved before."""
        _require(algorithm, verifier_type)
        found = await self._names.with_address(_address_in(verifier, verifier_type))
        return await self._mapping(found, verifier_type) if found is not None else None

    async def query(self, query: JsonValue) -> tuple[KeyEntry, ...]:
        """Return the resolved identifiers, and the branches above them, that a query matches."""
        try:
            found = await self._names.find(read_query(query))
        except DomainRejected as flaw:
            raise of_query(flaw) from None
        return tuple(
            KeyEntry(
                key.address is not None,
                key.has_children,
                key.parent,
                key.path,
                key.name,
                key.place,
                WALLET if key.address is not None else "",
                key.handle,
                (KeyVerifier(key.address, ETH_ADDRESS, SECP256K1),) if key.address is not None else (),
            )
            for key in found
        )

    async def sign(
        self, identifier: str, algorithm: str, verifier_type: str, payload_type: str, payload: bytes
    ) -> bytes:
        """Return a signature of 65 bytes, r, s, v, with v 27 or 28, over a hash as it is."""
        _require(algorithm, verifier_type)
        if payload_type != PAYLOAD_TYPE:
            raise errors.invalid("payloadType", f"must be {PAYLOAD_TYPE}")
        if len(payload) != PAYLOAD_BYTES:
            raise errors.invalid("payload", f"must be a hash of {PAYLOAD_BYTES} bytes, not {len(payload)}")
        party = self._own_party(identifier)
        await self._note(party)
        signature = await self._signer.sign(party_key(party), payload)
        return signature[:-1] + bytes([signature[-1] + RECOVERY_BASE])

    async def note(self, party: Party) -> ContractAddress:
        """Record that a party of this node acts, and return its address, which can be mapped back from now on."""
        key = await self._note(party)
        assert key.address is not None, "a party has a key"
        return key.address

    # The tree.

    def _own_party(self, identifier: str) -> Party:
        try:
            party = party_of("keyIdentifier", identifier, self._node)
            if node_of(party) != self._node:
                raise DomainRejected("keyIdentifier", f"must be of this node: {identifier!r} is of {node_of(party)}")
            segments = _identifier(party).split(".")
            if not all(segments) or len(segments) > SEGMENTS_MAX:
                raise DomainRejected("keyIdentifier", f"must be 1 to {SEGMENTS_MAX} names with dots between them")
            # Rejects a name that is too long for a key.
            party_key(party)
        except DomainRejected as flaw:
            raise errors.invalid(flaw.field, flaw.message) from None
        except ValueError as flaw:
            raise errors.invalid("keyIdentifier", str(flaw).partition(": ")[2]) from None
        return party

    async def _note(self, party: Party) -> StoredKey:
        """Return the party's place in the tree; add it if it has none."""
        path = _identifier(party)
        known = self._noted.get(path)
        if known is None:
            async with self._turn:
                known = await self._placed(party, path)
            self._noted[path] = known
            if len(self._noted) > NOTED_KEPT_MAX:
                self._noted.popitem(last=False)
        return known

    async def _placed(self, party: Party, path: str) -> StoredKey:
        branches = _branches(path)
        there = {key.path: key for key in await self._names.at(branches)}
        stored = there.get(path)
        if stored is not None and stored.address is not None:
            return stored
        name = party_key(party)
        try:
            address, handle = self._signer.address_of(name), write_path(path_of(name))
        except UnknownKey as error:
            raise errors.invalid("keyIdentifier", str(error)) from None
        missing = [branch for branch in branches if branch not in there]
        made: list[StoredKey] = []
        for branch in missing:
            parent, _, last = branch.rpartition(".")
            # Only the topmost missing one has a parent that may have other children.
            place = 0 if made else await self._names.next_place(parent)
            made.append(StoredKey(branch, parent, last, place))
        place = made.pop().place if missing else there[path].place
        parent, _, last = path.rpartition(".")
        key = StoredKey(path, parent, last, place, address, handle)
        await self._names.add([*made, key])
        return key

    async def _mapping(self, key: StoredKey, verifier_type: str) -> KeyMapping:
        assert key.address is not None, "a branch has no verifier"
        way = await self._names.at(_branches(key.path))
        name = party_key(Party(f"{key.path}@{self._node}"))
        verifier = written(key.address, lambda: self._signer.public_key_of(name), verifier_type)
        return KeyMapping(
            key.path,
            WALLET,
            key.handle,
            tuple(KeySegment(each.name, each.place) for each in way),
            KeyVerifier(verifier, verifier_type, SECP256K1),
        )


def _require(algorithm: str, verifier_type: str) -> None:
    try:
        require_known(algorithm, verifier_type, (SECP256K1,))
    except DomainRejected as flaw:
        raise errors.invalid(flaw.field, flaw.message) from None


def _address_in(verifier: str, verifier_type: str) -> ContractAddress:
    """Parse an address from a verifier. `errors.Rejected` when it is none of this type."""
    try:
        if verifier_type not in (PUBLIC_KEY, PUBLIC_KEY_0X):
            return read(Address, verifier).contract
        public = bytes.fromhex(verifier.removeprefix("0x"))
        if len(public) != PUBLIC_KEY_BYTES:
            raise ValueError(f"must be a public key of {PUBLIC_KEY_BYTES} bytes as hex, not {len(public)}")
        return ContractAddress("0x" + address_of(public).hex())
    except ValueError as flaw:
        raise errors.invalid("verifier", str(flaw)) from None


def _identifier(party: Party) -> str:
    return party.rpartition("@")[0]


def _branches(path: str) -> tuple[str, ...]:
    """Return the paths from the root to an identifier, itself at the end."""
    segments = path.split(".")
    return tuple(".".join(segments[:count]) for count in range(1, len(segments) + 1))
