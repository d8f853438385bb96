"""A domain for figures and tests of a network: all ways in which transactions interact, without business rules.

    spend    replaces shared states, each by its name, so that all spends of one depend on each other
    look     reads a shared state, and makes one of its own
    mint     makes a state for all members, and depends on nothing
    pay      spends the sender's latest coin, if it has one, and makes one for the payee and one for itself,
             which only those two and the endorsers may see
    revert, park, fail, refuse     end at assembly, wait for their user, make the domain fail, are refused by endorsers

Every function takes `data`, which its new states contain. The view `value` returns the content of a shared state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from rota.domains.base import (
    OUTPUTS_MAX,
    Assembled,
    Assembly,
    AttestationPlan,
    Deployment,
    Domain,
    NewState,
    Outcome,
    Parked,
    Proposal,
    Question,
    Refused,
    Rejected,
    Request,
    Reverted,
    Settled,
    party_of,
)
from rota.domains.contents import name_of
from rota.domains.records import Record, Uint8, shown
from rota.model.frozen import dataclass
from rota.model.types import Mode, Party, node_of

MEMBERS_MAX: Final = 16
SHARED: Final = "shared"


@dataclass(frozen=True, slots=True)
class Constructor(Record):
    """The endorsers, how many of them must sign (0: all), and the mode: `ring`, `static` (the first), or `sender`."""

    members: tuple[str, ...]
    threshold: Uint8 = 0
    mode: str = "ring"


@dataclass(frozen=True, slots=True)
class Configuration(Record):
    """The members, who see shared states."""

    members: tuple[Party, ...]


@dataclass(frozen=True, slots=True)
class Spend(Record):
    """The names of the shared states to replace."""

    names: tuple[str, ...] = (SHARED,)
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Look(Record):
    """The name of the shared state to read."""

    name: str = SHARED
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Pay(Record):
    """The payee."""

    to: Party
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Note(Record):
    """Data alone."""

    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Ending(Record):
    """The reason why the transaction does not succeed."""

    reason: str = "because it was asked to"


@dataclass(frozen=True, slots=True)
class Name(Record):
    """The name of a shared state."""

    name: str = SHARED


@dataclass(frozen=True, slots=True)
class Shared(Record):
    """A state that all members share."""

    name: str
    data: bytes
    labels = ("name",)


@dataclass(frozen=True, slots=True)
class Minted(Record):
    """A state that no transaction spends."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Coin(Record):
    """A private state of one party."""

    owner: Party
    data: bytes
    labels = ("owner",)


@dataclass(frozen=True, slots=True)
class Refusable(Record):
    """A state that every endorser refuses."""


class Synthetic(Domain[Configuration]):
    """The domain that the module describes."""

    name = "synthetic"
    is_for_tests = True
    constructor = Constructor
    configuration = Configuration
    functions: ClassVar[Mapping[str, type[Record]]] = {
        "spend": Spend,
        "look": Look,
        "mint": Note,
        "pay": Pay,
        "revert": Ending,
        "park": Ending,
        "fail": Ending,
        "refuse": Note,
    }
    views: ClassVar[Mapping[str, type[Record]]] = {"value": Name}
    states = (Shared, Minted, Coin, Refusable)

    def deploy(self, arguments: Record, sender: Party) -> Deployment[Configuration]:
        """The plan of a contract in which the members endorse; raises `Rejected` for bad members or modes."""
        assert isinstance(arguments, Constructor)
        if not 1 <= len(arguments.members) <= MEMBERS_MAX:
            raise Rejected("members", f"must be 1 to {MEMBERS_MAX} parties")
        home = node_of(sender)
        members = tuple(party_of(f"members[{n}]", name, home) for n, name in enumerate(arguments.members))
        try:
            mode = Mode(arguments.mode)
        except ValueError:
            raise Rejected("mode", "must be ring, static or sender") from None
        every = AttestationPlan.some_of(members, arguments.threshold or None)
        plans = {
            each: AttestationPlan(
                every.endorsers, every.threshold, each, every.committee[:1] if each is Mode.STATIC else every.committee
            )
            for each in Mode
        }
        plan = plans.pop(mode)
        return Deployment(plan, Configuration(members), members, tuple(plans.values()))

    def init(self, request: Request[Configuration]) -> tuple[Party, ...]:
        """The payee of a payment; raises `Rejected` if it, or the names to spend, are malformed."""
        match request.arguments:
            case Pay(to):
                return (party_of("to", to, node_of(request.sender)),)
            case Spend(names) if not 1 <= len(set(names)) == len(names) <= OUTPUTS_MAX:
                raise Rejected("names", f"must be 1 to {OUTPUTS_MAX} distinct names")
            case _:
                return ()

    def assemble(self, work: Assembly[Configuration]) -> Outcome:
        """The outcome of one function."""
        members = work.configuration.members
        match work.arguments:
            case Ending(reason):
                if work.function == "fail":
                    raise RuntimeError(reason)
                return Parked(reason) if work.function == "park" else Reverted(reason)
            case Spend(names, data):
                found = [work.states.where(Shared, name=name)[-1:] for name in names]
                spends = tuple(state.id for each in found for state in each)
                return Assembled(spends, makes=tuple(NewState(Shared(name, data), members) for name in names))
            case Look(name, data):
                seen = work.states.where(Shared, name=name)[-1:]
                return Assembled(reads=tuple(state.id for state in seen), makes=(NewState(Minted(data), members),))
            case Pay(to, data):
                payee = party_of("to", to, node_of(work.sender))
                coins = work.states.where(Coin, owner=work.sender)[-1:]
                readers = (work.sender, payee)
                makes = tuple(NewState(Coin(owner, data), readers) for owner in (payee, work.sender))
                return Assembled(tuple(coin.id for coin in coins), makes=makes)
            case Note(data):
                made: Record = Refusable() if work.function == "refuse" else Minted(data)
                return Assembled(makes=(NewState(made, members),))
            case _:
                raise AssertionError(f"{work.function} is not known")

    def endorse(self, proposal: Proposal[Configuration]) -> None:
        """Refuses shared states that are spent and not replaced, and coins that another party spends."""
        if proposal.created(Refusable):
            raise Refused("against the rules")
        for spent in (state.record for state in proposal.spends):
            match spent:
                case Coin(owner) if owner != proposal.sender:
                    raise Refused("the coin is not the sender's")
                case Shared(name) if name not in [made.name for made in proposal.created(Shared)]:
                    raise Refused(f"{name} is spent and not made again")
                case _:
                    pass
        readers = set(proposal.configuration.members)
        if any(not isinstance(made.record, Coin) and set(made.readers) != readers for made in proposal.makes):
            raise Refused("what is shared is for all members")

    def call(self, question: Question[Configuration]) -> object:
        """The content of a shared state, or None."""
        assert isinstance(question.arguments, Name)
        wanted = question.arguments.name
        found = question.states.where(Shared, name=wanted)[-1:]
        return shown(found[0].record) if found else None

    def receipt(self, settled: Settled[Configuration]) -> dict[str, object]:
        """The states that were made."""
        return {"made": [{"schema": name_of(type(made.record)), **shown(made.record)} for made in settled.made]}
