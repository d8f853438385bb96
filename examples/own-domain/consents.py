"""Consents: somebody lets somebody else use something so many times, and may withdraw it.

A clinic holds a patient's consent that a laboratory may use a record for one purpose, three times. The laboratory uses
it; the clinic withdraws it. Who checked what is agreed among members and nobody else's business; that nobody uses a
consent once too often must hold whoever crashes, lies or is late. A consent is one private state:

    grant       a member makes one, with as many uses as it says
    use         its recipient spends it and makes it again with one use less
    withdraw    its holder spends it and makes it again with none left

So a consent is always exactly one unspent state, and the ledger lets it be spent once: two uses of the last one that is
left cannot both happen. Used up or withdrawn, it stays, as evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from rota.domains.base import (
    Assembled,
    Assembly,
    AttestationPlan,
    Deployment,
    Domain,
    Known,
    NewState,
    Outcome,
    Proposal,
    Question,
    Refused,
    Rejected,
    Request,
    Reverted,
    Settled,
    party_of,
)
from rota.domains.records import Record, Uint8, Uint64, shown
from rota.model.types import Party, node_of

MEMBERS_MAX: Final = 16
USES_MAX: Final = 1_000_000


# What users say.


@dataclass(frozen=True, slots=True)
class Constructor(Record):
    """Who may grant and who checks; how many of them must agree, all if 0."""

    members: tuple[str, ...]
    threshold: Uint8 = 0


@dataclass(frozen=True, slots=True)
class Grant(Record):
    """Who may use what, for what, how often."""

    subject: str
    recipient: str
    purpose: str
    uses: Uint64


@dataclass(frozen=True, slots=True)
class Use(Record):
    """Which consent, by its recipient."""

    subject: str
    holder: str
    purpose: str


@dataclass(frozen=True, slots=True)
class Withdraw(Record):
    """Which consent, by its holder."""

    subject: str
    recipient: str
    purpose: str


@dataclass(frozen=True, slots=True)
class Look(Record):
    """Consents for a subject, as far as this node knows."""

    subject: str


# What a contract and a state hold.


@dataclass(frozen=True, slots=True)
class Configuration(Record):
    """Who may grant."""

    members: tuple[Party, ...]


@dataclass(frozen=True, slots=True)
class Consent(Record):
    """One consent; `granted` never changes, `left` only falls."""

    labels = ("subject", "holder", "recipient", "purpose")

    subject: str
    holder: Party
    recipient: Party
    purpose: str
    granted: Uint64
    left: Uint64


class Consents(Domain[Configuration]):
    """See the module."""

    name = "consents"
    constructor = Constructor
    configuration = Configuration
    functions: ClassVar[Mapping[str, type[Record]]] = {"grant": Grant, "use": Use, "withdraw": Withdraw}
    views: ClassVar[Mapping[str, type[Record]]] = {"consents": Look}
    states = (Consent,)

    def deploy(self, arguments: Record, sender: Party) -> Deployment[Configuration]:
        """The members' nodes endorse, so many of them, and take turns in coordinating."""
        assert isinstance(arguments, Constructor)
        if not 1 <= len(arguments.members) <= MEMBERS_MAX:
            raise Rejected("members", f"must be 1 to {MEMBERS_MAX} parties")
        home = node_of(sender)
        members = tuple(party_of(f"members[{n}]", name, home) for n, name in enumerate(arguments.members))
        plan = AttestationPlan.some_of(members, arguments.threshold or None)
        if plan.threshold > len(plan.endorser_nodes):
            raise Rejected("threshold", f"must be at most {len(plan.endorser_nodes)}, the number of the members' nodes")
        return Deployment(plan, Configuration(members), members)

    def init(self, request: Request[Configuration]) -> tuple[Party, ...]:
        """What can be refused before anything begins; the parties that it names must be known."""
        home = node_of(request.sender)
        match request.arguments:
            case Grant(recipient=recipient, uses=uses):
                if request.sender not in request.configuration.members:
                    raise Rejected("from", "must be a member: only members grant")
                if not 1 <= uses <= USES_MAX:
                    raise Rejected("uses", f"must be 1 to {USES_MAX}")
                if party_of("recipient", recipient, home) == request.sender:
                    raise Rejected("recipient", "must be somebody else")
                return (party_of("recipient", recipient, home),)
            case Use(holder=holder):
                return (party_of("holder", holder, home),)
            case Withdraw(recipient=recipient):
                return (party_of("recipient", recipient, home),)
            case _:
                raise AssertionError(f"{request.function} is not known")

    def assemble(self, work: Assembly[Configuration]) -> Outcome:
        """At the sender's node: the consent as it is, and as it shall be."""
        home = node_of(work.sender)
        match work.arguments:
            case Grant(subject, recipient, purpose, uses):
                recipient_party = party_of("recipient", recipient, home)
                return self._made(Consent(subject, work.sender, recipient_party, purpose, uses, uses))
            case Use(subject, holder, purpose):
                found = self._latest(work, subject, party_of("holder", holder, home), work.sender, purpose)
                if found is None:
                    return Reverted(f"{holder} has not let {work.sender} use {subject} for {purpose}, or no longer")
                return self._made(replace(found.record, left=found.record.left - 1), found)
            case Withdraw(subject, recipient, purpose):
                found = self._latest(work, subject, work.sender, party_of("recipient", recipient, home), purpose)
                if found is None:
                    return Reverted(f"there is nothing left to withdraw from {recipient}")
                return self._made(replace(found.record, left=0), found)
            case _:
                raise AssertionError(f"{work.function} is not known")

    def endorse(self, proposal: Proposal[Configuration]) -> None:
        """At each endorser's node: from the states alone. Whoever assembled this may have written what it liked."""
        new = proposal.only(Consent)
        spent = [state.record for state in proposal.spends]
        if not spent:
            is_whole = new.left == new.granted and 1 <= new.granted <= USES_MAX
            if new.holder != proposal.sender or new.holder not in proposal.configuration.members or not is_whole:
                raise Refused("a member grants in its own name, and all uses are left")
            return
        if len(spent) != 1 or not isinstance(old := spent[0], Consent) or replace(new, left=old.left) != old:
            raise Refused("one consent is replaced by itself, with less left")
        may_use = proposal.sender == old.recipient and new.left == old.left - 1
        may_withdraw = proposal.sender == old.holder and new.left == 0
        if old.left == 0 or not (may_use or may_withdraw):
            raise Refused(
                "its recipient uses it once at a time, its holder withdraws it, and nobody has more than is left"
            )

    def call(self, question: Question[Configuration]) -> object:
        """What this node knows of a subject's consents: all that its parties may see."""
        assert isinstance(question.arguments, Look)
        return [shown(state.record) for state in question.states.where(Consent, subject=question.arguments.subject)]

    def receipt(self, settled: Settled[Configuration]) -> dict[str, object]:
        """How the consent stands after this."""
        return {"consents": [shown(state.record) for state in settled.made]}

    def _latest(
        self, work: Assembly[Configuration], subject: str, holder: Party, recipient: Party, purpose: str
    ) -> Known[Consent] | None:
        """One that has uses left; of several the oldest."""
        key = {"subject": subject, "holder": holder, "recipient": recipient, "purpose": purpose}
        found = work.states.where(Consent, lambda consent: consent.left > 0, **key)
        return found[0] if found else None

    def _made(self, consent: Consent, old: Known[Consent] | None = None) -> Assembled:
        """Holder and recipient may see it; so do the members that endorse, and nobody else."""
        new = NewState(consent, (consent.holder, consent.recipient))
        return Assembled(spends=() if old is None else (old.id,), makes=(new,))
