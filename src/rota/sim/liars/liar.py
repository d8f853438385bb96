"""A node that lies, and the base class of strategies."""

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
    """One way of lying; the docstring of each subclass describes it."""

    name: ClassVar[str]

    def __init__(self, liar: Liar, random: Random) -> None:
        self.liar = liar
        self.random = random
        self.rate = random.choice(RATES)

    def strikes(self) -> bool:
        """Whether it lies this time, with probability `rate`; with rate 1 it always does."""
        return self.random.random() < self.rate

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """The message to send in place of one of the core; `None` drops it."""
        return envelope

    def hears(self, peer: NodeName, envelope: Envelope) -> bool:
        """Called for each message received; returns whether the liar's core receives it."""
        return True

    def submits(self, dispatch: RoundDispatch) -> bool:
        """Whether a transaction of the liar's core goes to the chain."""
        return True

    def acts(self) -> None:
        """Called periodically: sends or commits something that the core did not ask for."""


class Liar:
    """A node of the world with a real core, whose messages its strategies change."""

    def __init__(
        self, world: WorldOfLiars, name: NodeName, notebook: Notebook, foreknown: tuple[IntentId, ...]
    ) -> None:
        self.world = world
        self.name = name
        self.party = Party(f"user@{name}")
        self.book = notebook
        self.account = Account(world, name)
        # Ids count upwards, so a liar can know ids of intents not yet submitted.
        self.foreknown = foreknown
        self.strategies: tuple[Strategy, ...] = ()
        self.mutator: Mutator | None = None
        self.lie_count = 0

    # State.

    @property
    def core(self) -> Node | None:
        """The liar's real core; `None` while it is stopped or hung."""
        node = self.world.nodes[self.name]
        return None if node.is_hung else node.core

    @property
    def contracts(self) -> tuple[Contract, ...]:
        """The contracts that the liar knows."""
        return self.world.contracts_of[self.name]

    def contract(self, address: ContractAddress) -> Contract | None:
        """The contract at an address; `None` if there is none."""
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
        """The next request id of its core, which must be running."""
        assert self.core is not None, "only who runs says anything"
        return self.core.ids.next()

    # Actions.

    def send(self, peer: NodeName, contract: ContractAddress, body: Message, height: int | None = None) -> None:
        """Send a message that its core did not send. Does nothing while the core is stopped or hung."""
        core = self.core
        if core is None or peer == self.name:
            return
        answers = body.in_reply_to if isinstance(body, Reply) else None
        height = core.height if height is None else height
        envelope = Envelope(contract, core.ids.next(), core.incarnation, height, body, False, answers)
        self.pass_on(peer, envelope)

    def pass_on(self, peer: NodeName, envelope: Envelope) -> None:
        """Put a message on the wire, unless the codec rejects it."""
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
        """Ask endorsers to sign a round that the liar made; endorsers that are liars sign at once."""
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

    # Messages and transactions of the core.

    def says(self, peer: NodeName, envelope: Envelope) -> None:
        """Send a message of its core as changed by the strategies, or not at all if one drops it."""
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
        """Note a received message; returns whether its core receives it."""
        self.book.note(peer, self.name, envelope)
        is_heard = all([strategy.hears(peer, envelope) for strategy in self.strategies])  # noqa: C419 (no short circuit)
        self.lie_count += not is_heard
        return is_heard

    def submits(self, dispatch: RoundDispatch) -> bool:
        """Whether a transaction of its core goes to the chain. Its signatures are noted in either case."""
        order = dispatch.round
        known = KnownRound(order.contract, order.digest, order.leaves, order.transitions, (), order.valid_until_s)
        self.book.note_round(known, dict(order.signatures))
        is_submitted = all([strategy.submits(dispatch) for strategy in self.strategies])  # noqa: C419 (no short circuit)
        self.lie_count += not is_submitted
        return is_submitted

    def acts(self) -> None:
        """Let each strategy act, unless the core is stopped or hung."""
        if self.core is not None:
            for strategy in self.strategies:
                strategy.acts()


def with_body(envelope: Envelope, body: Message) -> Envelope:
    """The same envelope with another body."""
    return replace(envelope, body=body)
