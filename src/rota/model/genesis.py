"""The genesis of a contract: all that its members must agree on, in bytes whose hash is on the chain.

It holds the contract's configuration, the name of its domain with the domain's own configuration, and the parties that
are members from the beginning. The address is not in it: the factory computes the address from the hash of the genesis,
so that no other contract can take its place, and with the address the genesis gives the `Contract`. A salt
makes the hash hide the names.

`ledger` is the hash of the ledger's code and terms where the factory does not have that code: where transitions are
proved, and where one endorser signs rounds of a ledger with locks, or of one whose transitions another contract carries
out. The factory's event has it, and a node takes in only the code that its own domain names. Contracts without it are
`Endorsed`.

Canonical JSON: these keys in this order, no spaces, bytes as lower-case 0x hex. Bytes that decode to a genesis but are
not in this form are refused, because two forms would have two hashes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from rota.model.digests import keccak
from rota.model.json_text import read_json
from rota.model.types import NO_CONTRACT, Contract, ContractAddress, Mode, NodeName, Party, Rotation, node_of

GENESIS_BYTES_MAX: Final = 1_048_576
SALT_BYTES: Final = 32
LEDGER_BYTES: Final = 32
VERSION: Final = 1


class MalformedGenesis(ValueError):
    """These bytes are no genesis; the text names the wrong field and the correction."""


@dataclass(frozen=True, slots=True)
class Genesis:
    """The terms of a contract, before and after it has an address."""

    domain: str
    configuration: bytes
    members: tuple[Party, ...]
    committee: tuple[NodeName, ...]
    endorsers: tuple[NodeName, ...]
    threshold: int
    mode: Mode
    rotation: Rotation
    range_size: int
    virtual_nodes: int
    chain_id: int
    salt: bytes
    ledger: bytes = b""

    def __post_init__(self) -> None:
        if not self.domain:
            raise ValueError("domain: must be a name")
        if len(self.salt) != SALT_BYTES:
            raise ValueError(f"salt: must be {SALT_BYTES} bytes, not {len(self.salt)}")
        if len(self.ledger) not in (0, LEDGER_BYTES):
            raise ValueError(f"ledger: must be {LEDGER_BYTES} bytes, or none, not {len(self.ledger)}")
        if self.ledger and len(self.endorsers) != 1:
            raise ValueError(f"endorsers: must be one with a ledger of its own code, not {len(self.endorsers)}")
        if not 0 < self.chain_id < 1 << 64:
            raise ValueError("chain_id: must be from 1 to 2^64 - 1")
        self.contract(NO_CONTRACT)

    @property
    def told_threshold(self) -> int:
        """The threshold in the event of the factory: 0 for a ledger whose code the factory does not have."""
        return 0 if self.ledger else self.threshold

    @property
    def nodes(self) -> tuple[NodeName, ...]:
        """The nodes that have a part in it and need it: endorsers, coordinators, and the members' nodes."""
        return tuple(dict.fromkeys((*self.endorsers, *self.committee, *map(node_of, self.members))))

    def has_part_for(self, node: NodeName) -> bool:
        """Whether a node endorses or coordinates in it, to which its operator has to agree."""
        return node in self.endorsers or node in self.committee

    @property
    def audience(self) -> frozenset[NodeName] | None:
        """The nodes that may know of it: of a ring those that it names; None where any node may act (protocol §5)."""
        return frozenset(self.nodes) if self.mode is Mode.RING else None

    def is_open_to(self, node: NodeName) -> bool:
        """Whether a node may know of it."""
        audience = self.audience
        return audience is None or node in audience

    def contract(self, address: ContractAddress) -> Contract:
        """The contract that the factory deployed at this address."""
        return Contract(
            address,
            self.committee,
            self.endorsers,
            self.threshold,
            self.mode,
            self.rotation,
            self.range_size,
            self.virtual_nodes,
            self.chain_id,
        )


class _Written(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The keys of the canonical form, in its order."""

    version: int
    domain: str
    configuration: str
    members: tuple[str, ...]
    committee: tuple[str, ...]
    endorsers: tuple[str, ...]
    threshold: int
    mode: str
    rotation: str
    range_size: int
    virtual_nodes: int
    chain_id: int
    salt: str
    ledger: str = ""


def encode_genesis(genesis: Genesis) -> bytes:
    """Return the bytes that the members get."""
    written = _Written(
        VERSION,
        genesis.domain,
        "0x" + genesis.configuration.hex(),
        tuple(genesis.members),
        tuple(genesis.committee),
        tuple(genesis.endorsers),
        genesis.threshold,
        genesis.mode.value,
        genesis.rotation.value,
        genesis.range_size,
        genesis.virtual_nodes,
        genesis.chain_id,
        "0x" + genesis.salt.hex(),
        "0x" + genesis.ledger.hex() if genesis.ledger else "",
    )
    return msgspec.json.encode(written)


def decode_genesis(encoded: bytes) -> Genesis:
    """Return the genesis; raise `MalformedGenesis` when the bytes are not exactly what `encode_genesis` writes."""
    if len(encoded) > GENESIS_BYTES_MAX:
        raise MalformedGenesis(f"a genesis is at most {GENESIS_BYTES_MAX} bytes, not {len(encoded)}")
    try:
        genesis = _genesis_of(read_json(encoded, _Written))
    except Exception as error:
        # Any node may propose one. Its parts check themselves, each with errors of its own.
        raise MalformedGenesis(str(error)) from None
    if encode_genesis(genesis) != encoded:
        raise MalformedGenesis("a genesis must be written canonically")
    return genesis


def genesis_hash(encoded: bytes) -> bytes:
    """Return the hash that is on the chain."""
    return keccak(encoded)


def _genesis_of(written: _Written) -> Genesis:
    if written.version != VERSION:
        raise ValueError(f"version: must be {VERSION}, not {written.version}")
    return Genesis(
        written.domain,
        bytes.fromhex(written.configuration.removeprefix("0x")),
        tuple(Party(member) for member in written.members),
        tuple(NodeName(node) for node in written.committee),
        tuple(NodeName(node) for node in written.endorsers),
        written.threshold,
        Mode(written.mode),
        Rotation(written.rotation),
        written.range_size,
        written.virtual_nodes,
        written.chain_id,
        bytes.fromhex(written.salt.removeprefix("0x")),
        bytes.fromhex(written.ledger.removeprefix("0x")),
    )
