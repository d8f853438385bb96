"""The world outside: the ledger, peers and who they are, signers, contracts that are found on the chain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeAlias

from rota.chain.effects import FetchBlocks, SeeAccount, SignDispatch, SubmitTransaction
from rota.machine.effects import SendMessage
from rota.machine.tables import Event
from rota.model.types import BlockHash, ContractAddress, IntentId, NodeName

# A registered endpoint has at most so many hosts and ports; others are ignored.
PLACES_MAX: Final = 4

LedgerEffect: TypeAlias = FetchBlocks | SeeAccount | SignDispatch | SubmitTransaction
Tell: TypeAlias = Callable[[Event], None]

# A caller of the API waits for this read: it has a separate session and little time.
FOR_CALLER: Final[ContextVar[bool]] = ContextVar("for_caller", default=False)


class Unavailable(Exception):
    """The world did not carry out an order or question; a retry may succeed."""


class WriteInDoubt(Unavailable):
    """The store did not answer a write: it may have happened. The same write may be repeated."""


class Unanswerable(Unavailable):
    """A value that the store cannot look for or hold: an error of the caller. The store works."""


class UnknownKey(Unavailable):
    """There is no key of this name here; an operator may add it."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Who signs the rounds of a contract on the chain: each endorser's node and address in set order, and how many."""

    endorsers: tuple[tuple[NodeName, ContractAddress], ...]
    threshold: int


class Contracts(Protocol):
    """The contracts whose rounds this node follows; their number may grow while it runs."""

    def addresses(self) -> tuple[ContractAddress, ...]:
        """All of them."""
        ...

    def policy_of(self, contract: ContractAddress) -> Policy | None:
        """Who signs its rounds; `None` when the contract is not known."""
        ...


class Deployments(Protocol):
    """The deployments of this node's contracts: an endorser's key is derived from the deployment id (`keys.names`)."""

    def deployment_of(self, contract: ContractAddress) -> IntentId | None:
        """The id under which the factory deployed it; `None` when it is not known."""
        ...


class Signer(Protocol):
    """Holds keys by their names (`keys.names`): submitters, of which `SignDispatch` names one, parties, endorsers."""

    def address_of(self, signer: str) -> ContractAddress:
        """The address of this key. `UnknownKey` when there is no such key."""
        ...

    async def sign(self, signer: str, digest: bytes) -> bytes:
        """The 65-byte signature of a 32-byte hash: r, s, recovery id 0 or 1. `Unavailable` when it cannot."""
        ...


class KeyHolder(Signer, Protocol):
    """A signer that has the keys themselves, and so can derive other secrets from them."""

    def public_key_of(self, name: str) -> bytes:
        """The public key: its two coordinates, 64 bytes. `UnknownKey` when there is no such key."""
        ...

    def derive(self, name: str, purpose: bytes, size_bytes: int) -> bytes:
        """So many secret bytes of a key, the same each time. `UnknownKey` when there is no such key."""
        ...


class Ledger(Protocol):
    """A base ledger. It reports blocks and the results of orders as events."""

    async def run(self) -> None:
        """Follow the chain until cancelled."""
        ...

    def perform(self, effect: LedgerEffect) -> None:
        """Begin to carry this out; an order that is under way is not repeated."""
        ...

    def expect_genesis(self, genesis: BlockHash | None) -> None:
        """Follow no chain with another block 0 than this one, if it is given."""
        ...

    @property
    def trouble(self) -> str:
        """Why the chain cannot be reached, for an operator; empty when it can."""
        ...


@dataclass(frozen=True, slots=True)
class Registration:
    """The registration of a node: where it listens, and the SHA-256 of the certificate that it shows.

    A node with a standby listens at one of several places: its endpoint is a list with commas. While a certificate is
    being exchanged there are two fingerprints; `next_fingerprint` is empty otherwise.
    """

    endpoint: str
    fingerprint: bytes
    next_fingerprint: bytes = b""

    @property
    def fingerprints(self) -> tuple[bytes, ...]:
        """All that are valid now."""
        return (self.fingerprint, self.next_fingerprint) if self.next_fingerprint else (self.fingerprint,)

    @property
    def places(self) -> tuple[Registration, ...]:
        """The same with one host and port each, at most `PLACES_MAX`."""
        if "," not in self.endpoint:
            return (self,)
        places = dict.fromkeys(place.strip() for place in self.endpoint.split(",", PLACES_MAX)[:PLACES_MAX])
        return tuple(replace(self, endpoint=place) for place in places)


class Registry(Protocol):
    """The registered nodes. It may change at any time, and is read often: the answer is in memory."""

    def registrations(self) -> Mapping[NodeName, Registration]:
        """All nodes, this one among them."""
        ...


class Peers(Protocol):
    """The other nodes. Their messages and the state of connections are reported as events.

    A message is reported only between `ConnectionMade` and `ConnectionLost` of its peer, in the order in which the peer
    sent it, and once.
    """

    async def run(self) -> None:
        """Keep connected to every registered node until cancelled, then disconnect within a bound."""
        ...

    def send(self, order: SendMessage) -> None:
        """Send this to a peer as soon as possible; it may be lost."""
        ...

    def troubles(self) -> Mapping[NodeName, str]:
        """For an operator: why there is no connection, for each node without one."""
        ...
