"""Lies of a sender: about the owner of an intent, its content, and its validity."""

from __future__ import annotations

from dataclasses import replace

from rota.model.types import (
    Contract,
    DelegationNumber,
    Intent,
    IntentId,
    Leaf,
    NodeName,
    Party,
    StateId,
    Transition,
    node_of,
)
from rota.sim.domain import drawn_id, nonce_of
from rota.sim.liars.liar import OWN_NONCE, Strategy, with_body
from rota.sim.liars.making import made_transition, renamed, signed_by, with_false_contents
from rota.wire.messages import (
    AssembleError,
    AssembleRequest,
    AssembleResponse,
    AssemblyOutcome,
    AssemblyResult,
    Delegation,
    DelegationCommand,
    DispatchConfirmationError,
    DispatchConfirmationRequest,
    DispatchConfirmationResponse,
    Envelope,
    VerifierResponse,
)

HIGH = DelegationNumber(2**40, 2**40)
SQUATTED_AT_ONCE = 3
TAKEN_MAX = 20
FLOOD = 40
LONG_S = 100_000


class WithholdsPermission(Strategy):
    """Never answers a request for permission."""

    name = "withholds-permission"

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """Drop answers to requests for permission."""
        is_answer = isinstance(envelope.body, DispatchConfirmationResponse | DispatchConfirmationError)
        return None if is_answer and self.strikes() else envelope


class WithholdsAssembly(Strategy):
    """Never answers a request to assemble."""

    name = "withholds-assembly"

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """Drop answers to requests to assemble."""
        is_answer = isinstance(envelope.body, AssembleResponse | AssembleError)
        return None if is_answer and self.strikes() else envelope


class Alters(Strategy):
    """Base of strategies that change the transitions of the liar's own intents, and permit the changed ones."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.altered: set[Leaf] = set()

    def altered_transition(self, contract: Contract, transition: Transition) -> Transition:
        """The transition to send in place of the domain's."""
        raise NotImplementedError

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """Replace the transitions in the results of assemblies."""
        body, contract = envelope.body, self.liar.contract(envelope.contract)
        if not isinstance(body, AssembleResponse) or contract is None or not self.strikes():
            return envelope
        results = tuple(
            replace(result, transition=self._altered(contract, result.transition))
            if result.transition is not None
            else result
            for result in body.results
        )
        return with_body(envelope, replace(body, results=results))

    def _altered(self, contract: Contract, transition: Transition) -> Transition:
        changed = self.altered_transition(contract, transition)
        self.altered.add(changed.leaf)
        return changed

    def hears(self, peer: NodeName, envelope: Envelope) -> bool:
        """Permit altered transitions, unknown to the core; the core gets the request if it also names others."""
        body = envelope.body
        if not isinstance(body, DispatchConfirmationRequest):
            return True
        intents = tuple(item.intent for item in body.items if item.leaf in self.altered)
        if not intents:
            return True
        self.liar.send(peer, envelope.contract, DispatchConfirmationResponse(body.request_id, intents))
        return len(intents) < len(body.items)


class SpendsUnknown(Alters):
    """Assembles transitions that spend invented states."""

    name = "spends-unknown"

    def altered_transition(self, contract: Contract, transition: Transition) -> Transition:
        """Add an invented input."""
        unknown = (*transition.inputs[:14], StateId(Leaf(self.random.randbytes(32)), 0))
        changed = renamed(self.liar.separator(contract.address), replace(transition, inputs=unknown))
        return signed_by(self.liar.party, changed)


class SpendsOthers(Alters):
    """Assembles transitions that spend the states of other parties."""

    name = "spends-others"

    def altered_transition(self, contract: Contract, transition: Transition) -> Transition:
        """Replace the inputs with up to three random unspent states."""
        state = self.liar.world.ledger.states.get(contract.address)
        unspent = tuple(state.unspent)[-30:] if state is not None else ()
        inputs = tuple(self.random.sample(unspent, min(len(unspent), 3)))
        changed = renamed(self.liar.separator(contract.address), replace(transition, inputs=inputs))
        return signed_by(self.liar.party, changed)


class BoundsShortly(Alters):
    """Assembles transitions that are valid for a few seconds only."""

    name = "bounds-shortly"

    def altered_transition(self, contract: Contract, transition: Transition) -> Transition:
        """Set a bound a few seconds ahead, or in the past."""
        until_s = self.liar.time_s + self.random.choice((-10, 0, 1, 5))
        return signed_by(self.liar.party, replace(transition, valid_until_s=until_s))


class BoundsLong(Alters):
    """Assembles transitions that are valid for days."""

    name = "bounds-long"

    def altered_transition(self, contract: Contract, transition: Transition) -> Transition:
        """Set a bound far beyond the longest that a party may sign."""
        until_s = self.random.choice((self.liar.time_s + LONG_S, 2**62))
        return signed_by(self.liar.party, replace(transition, valid_until_s=until_s))


class HidesContents(Alters):
    """Assembles transitions whose contents do not match their commitments."""

    name = "hides-contents"

    def altered_transition(self, contract: Contract, transition: Transition) -> Transition:
        """Keep the leaf; replace the contents, or remove them and the distribution."""
        if self.random.random() < 0.5:
            return with_false_contents(transition, b"shared/hidden")
        outputs = tuple(replace(state, distribution=(self.liar.name,), content=None) for state in transition.outputs)
        return replace(transition, outputs=outputs)


class SignsForNobody(Alters):
    """Assembles transitions without its party's signature, or with random bytes in its place."""

    name = "signs-for-nobody"

    def altered_transition(self, contract: Contract, transition: Transition) -> Transition:
        """Remove the signature, or replace it with random bytes."""
        return replace(transition, signature=self.random.choice((b"", self.random.randbytes(32))))


class ShadowSender(Strategy):
    """Base of strategies that delegate intents unknown to the core, and answer requests for them."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.shadow: dict[IntentId, Delegation] = {}

    def delegate(self, contract: Contract, delegations: tuple[Delegation, ...]) -> None:
        """Delegate intents to every honest member."""
        for delegation in delegations:
            self.shadow[delegation.intent.id] = delegation
        for peer in contract.committee:
            if peer not in self.liar.book.liars and self.liar.core is not None:
                self.liar.send(peer, contract.address, DelegationCommand(self.liar.next_id(), delegations))

    def hears(self, peer: NodeName, envelope: Envelope) -> bool:
        """Answer requests for delegated intents at once; the core does not receive them."""
        body = envelope.body
        if isinstance(body, AssembleRequest) and any(intent in self.shadow for intent in body.intents):
            results = tuple(
                self._result(envelope, self.shadow[intent]) for intent in body.intents if intent in self.shadow
            )
            self.liar.send(peer, envelope.contract, AssembleResponse(body.request_id, results))
            return False
        if isinstance(body, DispatchConfirmationRequest):
            intents = tuple(item.intent for item in body.items if item.intent in self.shadow)
            if intents:
                self.liar.send(peer, envelope.contract, DispatchConfirmationResponse(body.request_id, intents))
                return False
        return True

    def _result(self, envelope: Envelope, delegation: Delegation) -> AssemblyResult:
        contents = () if delegation.is_voiding else (b"minted/" + delegation.intent.id,)
        transition = made_transition(
            self.liar.separator(envelope.contract),
            delegation.intent.id,
            contents,
            tuple(self.liar.world.nodes),
            self.liar.time_s + self.liar.world.config.validity_s // 2,
        )
        signed = signed_by(self.liar.party, transition)
        return AssemblyResult(delegation.intent.id, AssemblyOutcome.ASSEMBLED, delegation.number, signed)


class SquatsIds(ShadowSender):
    """Delegates under ids of others' intents, ahead of them, also with a large number and as voiding.

    About half of them it has endorsed. For the others it answers no request, and delegates them again: they only occupy
    the ids.
    """

    name = "squats-ids"

    def __init__(self, *given: object) -> None:
        super().__init__(*given)
        self.silent: dict[IntentId, None] = {}

    def hears(self, peer: NodeName, envelope: Envelope) -> bool:
        """Leave requests to assemble silent ids unanswered."""
        body = envelope.body
        is_silent = isinstance(body, AssembleRequest) and any(intent in self.silent for intent in body.intents)
        return not is_silent and super().hears(peer, envelope)

    def acts(self) -> None:
        """Delegate under the next unused ids, and under some of open intents."""
        for contract in self.liar.contracts:
            if self.strikes():
                for intent in self._chosen(contract):
                    # One by one, because a command is rejected as a whole.
                    self.delegate(contract, (self._squatting(contract, intent),))

    def _chosen(self, contract: Contract) -> tuple[IntentId, ...]:
        used = self.liar.world.ledger.states[contract.address].used
        ahead = [intent for intent in self.liar.foreknown if intent not in used and intent not in self.shadow]
        under_way = [intent for intent in self.liar.book.intents if intent not in used]
        new = (*ahead[:SQUATTED_AT_ONCE], *under_way[-SQUATTED_AT_ONCE:])
        taken = [intent for intent in self.silent if intent not in used]
        self.silent.update(dict.fromkeys(each for each in new if self.random.random() < 0.5))
        return (*new, *taken[-TAKEN_MAX:])

    def _squatting(self, contract: Contract, intent: IntentId) -> Delegation:
        known = self.liar.book.delegated.get(intent)
        parties = (self.liar.party,) if known is None else (self.liar.party, self.liar.party, known.intent.sender)
        nonce = self.liar.book.nonces.get(intent, OWN_NONCE)
        squat = Intent(intent, contract.address, self.random.choice(parties), b"mint", nonce=nonce)
        number = self.random.choice((HIGH, DelegationNumber(1, 1)))
        return Delegation(squat, number, 0, self.random.random() < 0.3)


class SquatsAsCoordinator(Strategy):
    """As coordinator, has transitions of its own party endorsed under ids of others, and commits them."""

    name = "squats-as-coordinator"

    def acts(self) -> None:
        """Ask for endorsement of a round with one squatted id; commit rounds with enough signatures."""
        liar = self.liar
        for contract in liar.contracts:
            used = liar.world.ledger.states[contract.address].used
            ahead = [intent for intent in (*liar.foreknown, *liar.book.intents) if intent not in used]
            if not ahead or not self.strikes():
                continue
            intent = self.random.choice(ahead[:5] + ahead[-5:])
            contents = self.random.choice(((b"minted/squatted",), (b"minted/squatted",), ()))
            until_s = liar.time_s + liar.world.config.validity_s // 2
            made = made_transition(liar.separator(contract.address), intent, contents, tuple(liar.world.nodes), until_s)
            liar.ask_to_endorse(contract, (signed_by(liar.party, made),), (liar.party,), until_s)
        for known, signatures in liar.book.complete():
            if all(node_of(sender) in liar.book.liars for sender in known.senders):
                liar.account.commit(known, signatures)


class Floods(ShadowSender):
    """Delegates many intents of its own to every honest member, and never completes any."""

    name = "floods"

    def acts(self) -> None:
        """Delegate a batch of new intents for each contract."""
        for contract in self.liar.contracts:
            if not self.strikes():
                continue
            intents = tuple(self._intent(contract) for _ in range(FLOOD))
            self.delegate(contract, tuple(Delegation(intent, DelegationNumber(1, 1)) for intent in intents))

    def _intent(self, contract: Contract) -> Intent:
        name = f"flood {self.random.getrandbits(32)}"
        party = self.liar.party
        return Intent(drawn_id(name, party, contract.address), contract.address, party, b"mint", nonce=nonce_of(name))

    def hears(self, peer: NodeName, envelope: Envelope) -> bool:
        """Leave requests to assemble them unanswered."""
        body = envelope.body
        return not (isinstance(body, AssembleRequest) and any(intent in self.shadow for intent in body.intents))


class DelegatesForOthers(ShadowSender):
    """Delegates intents in the name of other nodes' parties."""

    name = "delegates-for-others"

    def acts(self) -> None:
        """Delegate one intent of each honest node's party, for which the liar cannot sign."""
        for contract in self.liar.contracts:
            for victim in self.liar.victims:
                if self.strikes():
                    party = Party(f"user@{victim}")
                    name = f"forged {self.random.getrandbits(32)}"
                    drawn = drawn_id(name, party, contract.address)
                    intent = Intent(drawn, contract.address, party, b"pay:A", nonce=nonce_of(name))
                    self.delegate(contract, (Delegation(intent, HIGH),))


class VerifiesFalsely(Strategy):
    """Names other verifiers for its own parties, a different one each time."""

    name = "verifies-falsely"

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """Replace the verifier."""
        body = envelope.body
        if not isinstance(body, VerifierResponse) or not self.strikes():
            return envelope
        verifier = self.random.choice(("", "key of user@A", "key of nobody", "0x" + "00" * 20))
        return with_body(envelope, replace(body, verifier=verifier))


SENDERS: tuple[type[Strategy], ...] = (
    WithholdsPermission,
    WithholdsAssembly,
    SpendsUnknown,
    SpendsOthers,
    BoundsShortly,
    BoundsLong,
    HidesContents,
    SignsForNobody,
    SquatsIds,
    SquatsAsCoordinator,
    Floods,
    DelegatesForOthers,
    VerifiesFalsely,
)
