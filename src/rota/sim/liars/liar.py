"""One node that lies, and what every strategy of lying is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import ClassVar

from rota.chain.effects import RoundDispatch
from rota.model.digests import NONCE_BYTES, domain_separator, round_digest
from rota.model.types import Attesters, Contract, ContractAddress, IntentId, NodeName, Party, RequestId, Transition
from rota.node.node import Node
from rota.sim.frames import acceptable
from rota.sim.liars.account import Account, WorldOfLiars
from rota.sim.liars.mutator import Mutator
from rota.sim.liars.notebook import KnownRound, Notebook
from rota.sim.services import sign
from rota.wire.messages import EndorsementRequest, EndorserSignature, Envelope, Message, Reply

RATES = (0.1, 0.5, 1.0)
OWN_NONCE = b"of a liar".ljust(NONCE_BYTES, b"\x00")


class Strategy:
    """One way of lying; the docstring of each says what it does."""

    name: ClassVar[str]

    def __init__(self, liar: Liar, random: Random) -> None:
        self.liar = liar
        self.random = random
        self.rate = random.choice(RATES)

    def strikes(self) -> bool:
        """Whether it lies this time: some liars do always, others now and then."""
        return self.random.random() < self.rate

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """What goes to a peer in place of what the core says; nothing drops it."""
        return envelope

    def hears(self, peer: NodeName, envelope: Envelope) -> bool:
        """A message came; whether the liar's core hears of it."""
        return True

    def submits(self, dispatch: RoundDispatch) -> bool:
        """Whether a transaction of the liar's core goes to the chain."""
        return True

    def acts(self) -> None:
        """Now and then it does something of its own."""


class Liar:
    """A node of the world whose core is real, and whose words are not."""

    def __init__(
        self, world: WorldOfLiars, name: NodeName, notebook: Notebook, foreknown: tuple[IntentId, ...]
    ) -> None:
        self.world = world
        self.name = name
        self.party = Party(f"user@{name}")
        self.book = notebook
        self.account = Account(world, name)
        # Ids count upwards: those of intents to come can be known.
        self.foreknown = foreknown
        self.strategies: tuple[Strategy, ...] = ()
        self.mutator: Mutator | None = None
        self.lie_count = 0

    # What it knows.

    @property
    def core(self) -> Node | None:
        """Its real core, while it runs and does not hang."""
        node = self.world.nodes[self.name]
        return None if node.is_hung else node.core

    @property
    def contracts(self) -> tuple[Contract, ...]:
        """The contracts that it knows."""
        return self.world.contracts_of[self.name]

    def contract(self, address: ContractAddress) -> Contract | None:
        """The contract of an address, if it knows it."""
        return self.world.by_address.get(address)

    def separator(self, address: ContractAddress) -> bytes:
        """The domain separator of a contract."""
        return domain_separator(self.world.by_address[address].chain_id, address)

    @property
    def victims(self) -> tuple[NodeName, ...]:
        """The honest nodes."""
        return tuple(name for name in self.world.nodes if name not in self.book.liars)

    @property
    def time_s(self) -> int:
        """The chain's clock."""
        return self.world.chain.time_s

    @property
    def height(self) -> int:
        """The height of the chain."""
        return self.world.ledger.height

    def next_id(self) -> RequestId:
        """An id that its core has not used; only while it runs."""
        assert self.core is not None, "only who runs says anything"
        return self.core.ids.next()

    # What it does.

    def send(self, peer: NodeName, contract: ContractAddress, body: Message, height: int | None = None) -> None:
        """Say something that its core never said."""
        core = self.core
        if core is None or peer == self.name:
            return
        answers = body.in_reply_to if isinstance(body, Reply) else None
        height = core.height if height is None else height
        envelope = Envelope(contract, core.ids.next(), core.incarnation, height, body, False, answers)
        self.pass_on(peer, envelope)

    def pass_on(self, peer: NodeName, envelope: Envelope) -> None:
        """Put a message on the wire, unless no codec would write it."""
        accepted = acceptable(envelope)
        if accepted is None:
            return
        self.lie_count += 1
        self.book.note(self.name, peer, accepted)
        self.world.wires.transmit(self.name, peer, accepted)

    def ask_to_endorse(
        self,
        contract: Contract,
        transitions: tuple[Transition, ...],
        senders: tuple[Party, ...],
        valid_until_s: int,
        peers: Iterable[NodeName] | None = None,
        makers: tuple[Transition, ...] = (),
        attesters: tuple[Attesters, ...] = (),
        approvals: tuple[EndorserSignature, ...] = (),
    ) -> None:
        """Ask endorsers for signatures over a round of its own making; it signs itself if it may."""
        leaves = tuple(transition.leaf for transition in transitions)
        digest = round_digest(self.separator(contract.address), leaves, valid_until_s)
        known = KnownRound(contract.address, digest, leaves, transitions, senders, valid_until_s)
        own = {name: sign(name, digest) for name in contract.endorsers if name in self.book.liars}
        self.book.note_round(known, own)
        for peer in contract.endorsers if peers is None else peers:
            if peer not in self.book.liars and self.core is not None:
                shown = tuple(transition.as_seen_by(peer) for transition in transitions)
                nonces = tuple(self.book.nonces.get(each.intent, OWN_NONCE) for each in transitions)
                request = EndorsementRequest(
                    self.next_id(),
                    digest,
                    shown,
                    senders,
                    valid_until_s,
                    makers=makers,
                    nonces=nonces,
                    attesters=attesters,
                    approvals=approvals,
                )
                self.send(peer, contract.address, request)

    # What passes it.

    def says(self, peer: NodeName, envelope: Envelope) -> None:
        """Its core says something: what its strategies make of it leaves."""
        said: Envelope | None = envelope
        for strategy in self.strategies:
            if said is not None:
                said = strategy.says(peer, said)
        if said is not None and self.mutator is not None:
            said = self.mutator.mutate(peer, said)
        if said is None:
            self.lie_count += 1
        elif said is envelope:
            self.book.note(self.name, peer, envelope)
            self.world.wires.transmit(self.name, peer, envelope)
        else:
            self.pass_on(peer, said)

    def hears(self, peer: NodeName, envelope: Envelope) -> bool:
        """Something is said to it; whether its core hears it."""
        self.book.note(peer, self.name, envelope)
        is_heard = all([strategy.hears(peer, envelope) for strategy in self.strategies])  # noqa: C419 (each is told)
        self.lie_count += not is_heard
        return is_heard

    def submits(self, dispatch: RoundDispatch) -> bool:
        """Its core sends a transaction; whether it leaves. Either way its signatures are in the notebook."""
        order = dispatch.round
        known = KnownRound(order.contract, order.digest, order.leaves, order.transitions, (), order.valid_until_s)
        self.book.note_round(known, dict(order.signatures))
        is_submitted = all([strategy.submits(dispatch) for strategy in self.strategies])  # noqa: C419 (each is asked)
        self.lie_count += not is_submitted
        return is_submitted

    def acts(self) -> None:
        """Its strategies do what they do by themselves."""
        if self.core is not None:
            for strategy in self.strategies:
                strategy.acts()


def with_body(envelope: Envelope, body: Message) -> Envelope:
    """The same envelope with another body."""
    return replace(envelope, body=body)
