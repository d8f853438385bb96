"""The services that answer the core for domain, signer and key store: effects that compute, and their result events.

Theory of operation. Orders to a domain are answered by pure functions (`rota.host`) on the states that this node holds
of the contract; orders to keys by `keys.Signatures`. Orders about the states of one contract are answered one at a
time, in the order in which they came, since an endorser checks a round on top of the previous one.

Domains whose users bring code of their own run in other processes (`private_code`). There, own users' requests about a
contract do not wait for those of peers.

An order that fails because something is unavailable is not answered: the core repeats it by its own timeout. The reason
is shown to operators (`troubles`). A peer that is over its budget gets an answer without a judgement. An exception of a
domain fails only the answer it occurred in.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from time import thread_time
from typing import Final

from rota import host
from rota.domains.base import Behind, Lacking, Rejected, Reserve, Roster
from rota.engine import drafting
from rota.engine.contracts import KnownContracts
from rota.engine.held_states import HeldStates
from rota.engine.proving import Proving
from rota.engine.recalling import Recalled, ask_in_steps, ask_recalling
from rota.engine.verifiers import Verifiers
from rota.engine.work_shares import VERIFYING, Budgets
from rota.evm.worker import OverBudget
from rota.host import Checked
from rota.host.answers import Asked, Elsewhere
from rota.host.contracts import CallGas
from rota.host.proving import reveal
from rota.keys.signatures import Signatures
from rota.logs import catalogue
from rota.logs.trouble import PeerLines
from rota.machine.effects import Effect, LookUpVerifier
from rota.machine.tables import Event
from rota.model.digests import approval_digest, refusal_digest
from rota.model.types import (
    ContractAddress,
    Intent,
    IntentId,
    Leaf,
    NodeName,
    Party,
    PartySignature,
    Transition,
    node_of,
)
from rota.node.events import ForContract
from rota.ports import Background, Store, Tell, Unavailable
from rota.sequencer.attestation import attesters_at
from rota.sequencer.effects import (
    AssembleIntents,
    CheckRound,
    JudgeFailure,
    Signed,
    SignTransition,
    VerifyEndorsement,
    VerifyEndorsers,
    VerifyParties,
    VerifySignature,
)
from rota.sequencer.events import AssemblyFailed, AssemblyFinished, FailureJudged, PartiesVerified, RoundChecked
from rota.wire.messages import Refusal

TROUBLES_MAX: Final = 256
# The orders that may wait for one contract's domain: the core repeats those that are not answered.
ORDERS_MAX: Final = 2_048
# Unknown parties that are looked up at a time, for one coordinator or of one sender's node.
ASKED_OF_ONE_MAX: Final = 1_024
# Signatures verified between two turns of the event loop: each takes 80 microseconds.
VERIFIED_A_STEP: Final = 64

DomainOrder = AssembleIntents | CheckRound
# A contract whose domain runs elsewhere has two: for own users, and for peers.
_TurnKey = tuple[ContractAddress, bool]
IsAnnounced = Callable[[Party], Awaitable[bool]]
# The gas that a call of this contract needs, by its target, its data and the gas that it may have; None when that is
# not known, or much more.
EstimateCall = Callable[[ContractAddress, ContractAddress, bytes, int], Awaitable[int | None]]
FindReserve = Callable[[ContractAddress, ContractAddress], Awaitable[Reserve | None]]


@dataclass(slots=True)
class _Turn:
    """The lock by which requests of one contract take turns, and how many hold it or wait for it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    wanted: int = 0


class Services:
    """The services of one node."""

    def __init__(
        self,
        node: NodeName,
        contracts: KnownContracts,
        signatures: Signatures,
        store: Store,
        held: HeldStates,
        verifiers: Verifiers,
        tell: Tell,
        proving: Proving | None = None,
        find_reserve: FindReserve | None = None,
        is_announced: IsAnnounced | None = None,
        elsewhere: Elsewhere | None = None,
        clock_s: Callable[[], float] = time.monotonic,
        estimate_call: EstimateCall | None = None,
    ) -> None:
        self._node: Final = node
        self._contracts: Final = contracts
        self._signatures: Final = signatures
        self._store: Final = store
        self._held: Final = held
        self._verifiers: Final = verifiers
        self._tell: Final = tell
        self._proving: Final = proving
        self._find_reserve: Final = find_reserve
        self._estimate_call: Final = estimate_call
        self._elsewhere: Final = elsewhere
        self._is_announced: Final = is_announced
        self._verifying: Final = Budgets(VERIFYING, clock_s)
        self._asked: Final[Counter[NodeName]] = Counter()
        self._tasks: Final = Background("domain answers")
        self._turns: Final[dict[_TurnKey, _Turn]] = {}
        self._orders: Final[dict[ContractAddress, int]] = {}
        self._troubles: Final[dict[ContractAddress, str]] = {}
        self.over_budget_count = 0
        self._rarely_over_budget: Final = PeerLines()
        self._rarely_failed: Final = PeerLines()

    @property
    def troubles(self) -> dict[ContractAddress, str]:
        """The reason for which the latest order of each contract was not answered; no entry when it was."""
        return dict(self._troubles)

    @property
    def processes_ended_count(self) -> int:
        """How many processes for private code ended in the middle of an answer."""
        return self._elsewhere.ended_count if self._elsewhere is not None else 0

    async def begin(self) -> None:
        """Take over the proofs of the previous run. `Unavailable` when the store is not reachable."""
        if self._proving is not None:
            await self._proving.begin()

    def ended(self, intent: IntentId) -> None:
        """Delete the stored proof of this intent: no more orders will come for it."""
        if self._proving is not None:
            self._proving.ended(intent)

    def perform(self, effect: Effect) -> None:
        """Start to answer an effect; the result comes as an event."""
        match effect:
            case VerifySignature(contract):
                self._tell(ForContract(contract, self._signers_of(contract).verify_signature(effect)))
            case VerifyParties():
                self._begin(self._verify_parties(effect))
            case VerifyEndorsement(contract):
                self._tell(ForContract(contract, self._signatures.verify_endorsement(effect)))
            case VerifyEndorsers(contract):
                self._tell(ForContract(contract, self._signatures.verify_endorsers(effect)))
            case LookUpVerifier():
                self._begin(self._look_up(effect))
            case JudgeFailure():
                self._judge_failure(effect)
            case SignTransition():
                self._begin(self._sign(effect))
            case AssembleIntents(contract) | CheckRound(contract):
                if self._orders.get(contract, 0) < ORDERS_MAX:
                    self._orders[contract] = self._orders.get(contract, 0) + 1
                    self._begin(self._answer(effect))
                else:
                    self._note_trouble(contract, f"{ORDERS_MAX} questions wait for its domain")
            case _:
                raise AssertionError(f"services do not know {type(effect).__name__}")

    async def close(self) -> None:
        """Cancel the answers in progress."""
        await self._tasks.close()
        if self._proving is not None:
            await self._proving.close()

    def _begin(self, answering: Coroutine[None, None, None]) -> None:
        self._tasks.begin(answering)

    async def _answer(self, order: DomainOrder) -> None:
        contract = order.contract
        try:
            if isinstance(order, CheckRound):
                await self._check_in_turn(order)
            else:
                await self._in_turn(order, self._assemble)
        finally:
            self._orders[contract] -= 1
            if not self._orders[contract]:
                del self._orders[contract]

    def _note_trouble(self, contract: ContractAddress, trouble: str) -> None:
        if len(self._troubles) < TROUBLES_MAX:
            self._troubles[contract] = trouble

    async def _in_turn(self, order: DomainOrder, answer: Callable[[DomainOrder], Awaitable[list[Event]]]) -> None:
        """Answer one order at a time within a contract; leave it unanswered while something is unavailable."""
        async with self._turn_of(order.contract, for_peer=isinstance(order, CheckRound)):
            try:
                events = await answer(order)
            except OverBudget as trouble:
                self.over_budget_count += 1
                self._note_trouble(order.contract, str(trouble))
                events = _over_budget(order)
            except Unavailable as trouble:
                self._note_trouble(order.contract, str(trouble))
                return
            else:
                self._troubles.pop(order.contract, None)
        for event in events:
            self._tell(ForContract(order.contract, event))

    @asynccontextmanager
    async def _turn_of(self, contract: ContractAddress, *, for_peer: bool = False) -> AsyncIterator[None]:
        """Hold the contract's turn; waiting requests get it in their order."""
        hosted = self._contracts.hosted(contract) if for_peer else None
        key = contract, hosted is not None and self._elsewhere_for(hosted) is not None
        turn = self._turns.setdefault(key, _Turn())
        turn.wanted += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.wanted -= 1
            if not turn.wanted:
                del self._turns[key]

    def _elsewhere_for(self, hosted: host.Hosted) -> Elsewhere | None:
        return self._elsewhere if hosted.domain.runs_code else None

    def _signers_of(self, contract: ContractAddress) -> Signatures | Proving:
        """Return the signer for parties in this contract: their keys, or a prover where transitions are proved."""
        return self._proving if self._proving is not None and self._proving.is_for(contract) else self._signatures

    async def _look_up(self, order: LookUpVerifier) -> None:
        """Look up the verifier of a party of this node; and whether its users have used it, if the store answers."""
        found = self._signers_of(order.contract).look_up_verifier(order)
        if order.asks_announced and found.verifier and self._is_announced is not None:
            with suppress(Unavailable):
                found = replace(found, announced=await self._is_announced(order.party))
        self._tell(ForContract(order.contract, found))

    async def _sign(self, order: SignTransition) -> None:
        self._tell(ForContract(order.contract, await self._signers_of(order.contract).sign_transition(order)))

    def _judge_failure(self, order: JudgeFailure) -> None:
        """Judge whether a failure on the ledger is worth a retry: yes if the domain fails or is not loaded."""
        hosted = self._contracts.hosted(order.contract)
        judged = FailureJudged(order.intent.id, order.leaf, is_worth_retrying=True)
        if hosted is not None:
            try:
                judged = host.judge_failure(hosted, order)
            except Exception as error:
                catalogue.DOMAIN_FAILED.log(
                    contract=order.contract, intent=order.intent.id, operation="judge_failure", error=error
                )
        self._tell(ForContract(order.contract, judged))

    # Users.

    async def call(self, hosted: host.Hosted, asked: host.UserCall) -> object:
        """Return a view's answer from the states held now. `domains.base.Rejected` names the wrong field.

        States that the domain lacks may be in the store, spent; then it is asked again with them.
        """
        verifiers: Mapping[Party, str] = {asked.sender: self._signatures.verifier_of(asked.sender)}
        if self._proving is not None and hosted.domain.ledgers:
            verifiers = self._proving.keys_in(hosted.contract.address)
        elsewhere = self._elsewhere_for(hosted)
        try:
            if elsewhere is not None:
                return await elsewhere.call(hosted, Asked(asked, verifiers))
            held = await self._held.of(hosted)

            def call(recalled: Recalled) -> object:
                return host.call(hosted, asked, held, self._node, host.Background(recalled.find, verifiers))

            return await ask_recalling(self._store, hosted.contract.address, call)
        except (Lacking, Behind) as lacking:
            raise Unavailable(str(lacking)) from None

    # The domain.

    async def _assemble(self, order: DomainOrder) -> list[Event]:
        assert isinstance(order, AssembleIntents), "an assembly"
        hosted = self._contracts.hosted(order.contract)
        if hosted is None:
            reason = f"the domain of {order.contract} is not loaded here"
            return [AssemblyFailed(order.request_id, intent.id, reason) for intent in order.intents]
        verifiers = await self._verifiers_of(order.intents)
        reserves, roster = await self._reserves_of(hosted, order.intents), await self._roster_of(hosted)
        asked = Asked(order, verifiers, reserves, roster=roster)
        events = await self._assemble_as(hosted, order, asked)
        if hosted.domain.estimates_calls and (gas := await self._gas_of_calls(order.contract, events)):
            events = await self._assemble_as(hosted, order, replace(asked, call_gas=gas))
        for event in events:
            if isinstance(event, AssemblyFailed) and event.error is not None:
                catalogue.DOMAIN_FAILED.log(
                    contract=order.contract, intent=event.intent, operation="assemble", error=event.error
                )
        return events

    async def _gas_of_calls(self, contract: ContractAddress, events: Iterable[Event]) -> CallGas:
        """Return the gas of each transition's first call, where the node's own Ethereum node can estimate it."""
        made = [event.transition for event in events if isinstance(event, AssemblyFinished)]
        calls = [each.calls[0] for each in made if each is not None and each.calls]
        first = {(call.to, call.data): call.gas for call in calls}
        if self._estimate_call is None or not first:
            return {}
        found = await asyncio.gather(*(self._estimate_call(contract, *call, first[call]) for call in sorted(first)))
        return {call: gas for call, gas in zip(sorted(first), found, strict=True) if gas is not None}

    async def _assemble_as(self, hosted: host.Hosted, order: AssembleIntents, asked: Asked) -> list[Event]:
        elsewhere = self._elsewhere_for(hosted)
        if elsewhere is not None:
            return [*await elsewhere.assemble(hosted, asked)]
        held = await self._held.of(hosted)
        proving = self._proving if hosted.domain.ledgers else None

        def assembling(recalled: Recalled) -> Generator[None, None, list[Event]]:
            background = host.Background(recalled.find, asked.verifiers, asked.reserves, asked.call_gas, asked.roster)
            made = yield from host.assembling(hosted, order, held, self._node, background)
            if proving is None:
                return [*made]
            return proving.take(made, reveal(hosted, order, made, held, self._node, background))

        return await ask_in_steps(self._store, order.contract, assembling)

    async def draft(self, hosted: host.Hosted, intent: Intent) -> drafting.Draft:
        """Return the draft of a user's external intent, as assembled now; raises `Rejected` or `Unavailable`."""
        async with self._turn_of(intent.contract):
            verifiers = await self._verifiers_of((intent,))
            reserves, roster = await self._reserves_of(hosted, (intent,)), await self._roster_of(hosted)
            elsewhere = self._elsewhere_for(hosted)
            if elsewhere is not None:
                asked = Asked(drafting.order_of(intent), verifiers, reserves, roster=roster)
                return drafting.drafted(hosted, intent, await elsewhere.assemble(hosted, asked))
            held = await self._held.of(hosted)

            def assemble(recalled: Recalled) -> drafting.Draft | Rejected | Unavailable:
                try:
                    background = host.Background(recalled.find, verifiers, reserves, roster=roster)
                    return drafting.draft(hosted, intent, held, self._node, background)
                except (Rejected, Unavailable) as flaw:
                    return flaw

            drafted = await ask_recalling(self._store, intent.contract, assemble)
        if isinstance(drafted, Rejected | Unavailable):
            raise drafted
        return drafted

    async def _verifiers_of(self, intents: tuple[Intent, ...]) -> Mapping[Party, str]:
        parties = [party for intent in intents for party in (intent.sender, *intent.parties)]
        return await self._verifiers.of(intents[0].contract, parties)

    async def _reserves_of(self, hosted: host.Hosted, intents: tuple[Intent, ...]) -> Mapping[Party, Reserve]:
        """Return the chain's record of the public tokens that these intents turn into coins, or coins into."""
        movers = host.movers_in(hosted, intents)
        if not movers:
            return {}
        if self._find_reserve is None:
            raise Unavailable("public tokens cannot be asked about here")
        accounts = [ContractAddress(self._signatures.verifier_of(party)) for party in movers]
        found = await asyncio.gather(*(self._find_reserve(hosted.contract.address, each) for each in accounts))
        return {party: reserve for party, reserve in zip(movers, found, strict=True) if reserve is not None}

    async def _roster_of(self, hosted: host.Hosted) -> Roster | None:
        return None if self._proving is None else await self._proving.roster_of(hosted)

    async def countersigned(self, sender: Party, contract: ContractAddress | None, call: bytes) -> bytes:
        """Return a public call of a party of this node, with the issuer's signature where the contract needs it."""
        return call if self._proving is None else await self._proving.countersigned(sender, contract, call)

    async def _known_verifiers(
        self, contract: ContractAddress, parties: Iterable[tuple[NodeName, Party]]
    ) -> dict[Party, str]:
        """Return the verifiers of those of these parties whose nodes answer.

        Each lookup counts against the node that named the party: a coordinator or a sender may invent any number of
        parties whose nodes never answer. Beyond `ASKED_OF_ONE_MAX` a party counts as one whose node is silent.
        """
        verifiers: dict[Party, str] = {}
        asked: dict[Party, NodeName] = {}
        for who, party in parties:
            known = self._verifiers.known(contract, party)
            if known is not None:
                verifiers[party] = known
            elif party not in asked and self._asked[who] < ASKED_OF_ONE_MAX:
                asked[party] = who
                self._asked[who] += 1
        try:
            questions = (self._verifiers.of(contract, (party,)) for party in asked)
            answers = await asyncio.gather(*questions, return_exceptions=True)
        finally:
            self._asked.subtract(asked.values())
            for who in dict.fromkeys(asked.values()):
                if not self._asked[who]:
                    del self._asked[who]
        for answer in answers:
            if isinstance(answer, dict):
                verifiers.update(answer)
            elif not isinstance(answer, Unavailable):
                raise answer
        return verifiers

    async def _verify_parties(self, order: VerifyParties) -> None:
        """Check which transitions that wait for a round bear the signature of their party, some at a time."""
        signed = _signed_by(order)
        parties = ((node_of(each.party), each.party) for _, each in signed)
        verifiers = await self._known_verifiers(order.contract, parties)
        false: dict[Leaf, None] = {}
        for start in range(0, len(signed), VERIFIED_A_STEP):
            for made, each in signed[start : start + VERIFIED_A_STEP]:
                if each.party in verifiers and not self._has_signed(verifiers, made, each):
                    false[made.leaf] = None
            await asyncio.sleep(0)
        unknown = dict.fromkeys(made.leaf for made, each in signed if each.party not in verifiers)
        self._tell(ForContract(order.contract, PartiesVerified(order.request_id, tuple(false), tuple(unknown))))

    async def _check_in_turn(self, order: CheckRound) -> None:
        """Check a round; if parties' nodes do not return verifiers, report their transitions as unjudged instead."""
        signed = _signed_by(order)
        is_own = order.peer == self._node
        parties = ((node_of(each.party) if is_own else order.peer, each.party) for _, each in signed)
        verifiers = await self._known_verifiers(order.contract, parties)
        silent = tuple(dict.fromkeys(made.leaf for made, each in signed if each.party not in verifiers))
        if silent:
            checked = RoundChecked(order.peer, order.request_id, unjudged=silent, digest=order.digest)
            self._tell(ForContract(order.contract, checked))
        else:
            await self._in_turn(order, partial(self._check, verifiers=verifiers))

    async def _check(self, order: DomainOrder, verifiers: Mapping[Party, str]) -> list[Event]:
        """Judge a round by its signatures, then its approvals, then its domain; sign it when all are valid.

        A refusal that the domain gives for the transition's own sake is signed too. Failures of the domain are logged.
        """
        assert isinstance(order, CheckRound), "a round"
        hosted = self._contracts.hosted(order.contract)
        if hosted is None:
            raise Unavailable(f"the domain of {order.contract} is not loaded here")
        checked = await self._unsigned(order, verifiers) or self._unapproved(hosted, order)
        checked = checked or await self._judge(hosted, order, verifiers)
        for leaf, error in checked.failures:
            if isinstance(error, OverBudget):
                self.over_budget_count += 1
                if self._rarely_over_budget.is_due(order.peer):
                    catalogue.DOMAIN_OVER_BUDGET.log(
                        contract=order.contract, leaf=leaf, peer=order.peer, reason=str(error)
                    )
            elif self._rarely_failed.is_due(order.peer):
                catalogue.DOMAIN_CHECK_FAILED.log(contract=order.contract, leaf=leaf, peer=order.peer, error=error)
        signature = b""
        if not checked.refusals and not checked.missing and not checked.failures:
            digest = approval_digest(hosted.separator, order.digest) if order.asks_approval else order.digest
            signature = await self._signatures.sign_as_endorser(order.contract, digest)
        refusals = await self._signed_refusals(hosted, order, checked)
        unjudged = tuple(leaf for leaf, _ in checked.failures)
        return [
            RoundChecked(order.peer, order.request_id, signature, refusals, checked.missing, unjudged, order.digest)
        ]

    async def _unsigned(self, order: CheckRound, verifiers: Mapping[Party, str]) -> Checked | None:
        """Check that each leaf bears the signatures of its `from` party and of those that its plan adds.

        A peer chooses how many there are and how often it asks: the event loop runs in between, and the time is charged
        to the peer. `OverBudget` when it has used up its share.
        """
        is_charged = order.peer != self._node
        if is_charged and self._verifying.is_over(order.peer):
            raise OverBudget(f"{order.peer} has used up the time for which signatures are verified for it")
        refusals: dict[Leaf, Refusal] = {}
        signed = _signed_by(order)
        for start in range(0, len(signed), VERIFIED_A_STEP):
            began_s = thread_time()
            for made, each in signed[start : start + VERIFIED_A_STEP]:
                if not self._has_signed(verifiers, made, each):
                    reason = f"the signature is not that of {each.party}"
                    refusals[made.leaf] = Refusal(made.intent, reason, leaf=made.leaf)
            if is_charged:
                self._verifying.charge(order.peer, thread_time() - began_s, 0)
            await asyncio.sleep(0)
        return Checked(tuple(refusals.values()), judged=tuple(refusals)) if refusals else None

    def _has_signed(self, verifiers: Mapping[Party, str], made: Transition, signed: PartySignature) -> bool:
        return self._signatures.has_signed(verifiers[signed.party], made.leaf, made.valid_until_s, signed.signature)

    def _unapproved(self, hosted: host.Hosted, order: CheckRound) -> Checked | None:
        """Refuse a round that lacks the approvals of the nodes that its transactions' plan names.

        The coordinator has to bring the approvals, so that this is no judgement of a leaf.
        """
        if order.asks_approval or not order.attesters:
            return None
        digest, required = approval_digest(hosted.separator, order.digest), order.attesters[0].endorsers
        found = dict(order.approvals)
        signed = tuple(Signed(node, digest, found.get(node, b"")) for node in required)
        verified = self._signatures.verify_endorsers(VerifyEndorsers(order.contract, order.request_id, signed))
        false = [node for node, is_valid in zip(required, verified.are_valid, strict=True) if not is_valid]
        reason = f"the approval is not that of {', '.join(false)}"
        refusals = tuple(Refusal(each.intent, reason, leaf=each.leaf) for each in order.transitions)
        return Checked(refusals) if false else None

    async def _signed_refusals(self, hosted: host.Hosted, order: CheckRound, checked: Checked) -> tuple[Refusal, ...]:
        """Sign the refusals; not for a leaf that occurs twice, as the refusal may concern the other copy."""
        signatures: dict[Leaf, bytes] = {}
        times = Counter(transition.leaf for transition in order.transitions)
        for number, (transition, sender) in enumerate(zip(order.transitions, order.senders, strict=True)):
            if transition.leaf in checked.judged and times[transition.leaf] == 1:
                digest = refusal_digest(hosted.separator, sender, transition, attesters_at(order.attesters, number))
                signatures[transition.leaf] = await self._signatures.sign_as_endorser(order.contract, digest)
        return tuple(each._replace(signature=signatures.get(each.leaf, b"")) for each in checked.refusals)

    async def _judge(self, hosted: host.Hosted, order: CheckRound, verifiers: Mapping[Party, str]) -> Checked:
        """Have the domain judge a round; states that it lacks may be in the store, spent or not yet confirmed.

        A round without transitions, in which intents are voided without their parties, has nothing to judge.
        """
        if not order.transitions:
            return Checked()
        elsewhere = self._elsewhere_for(hosted)
        if elsewhere is not None:
            return await elsewhere.check(hosted, Asked(order, verifiers))
        held = await self._held.of(hosted)

        def checking(recalled: Recalled) -> Generator[None, None, Checked]:
            return host.checking(hosted, order, held, self._node, host.Background(recalled.find, verifiers))

        return await ask_in_steps(self._store, order.contract, checking)


def _over_budget(order: DomainOrder) -> list[Event]:
    """Answer a peer that its round is not judged now. This node's own core repeats its assemblies without an answer."""
    return [RoundChecked(order.peer, order.request_id, digest=order.digest)] if isinstance(order, CheckRound) else []


def _signed_by(order: CheckRound | VerifyParties) -> list[tuple[Transition, PartySignature]]:
    """Return each transition with the signature of its `from` party, and those of the parties that its plan adds."""
    signed = [
        (made, PartySignature(sender, made.signature))
        for made, sender in zip(order.transitions, order.senders, strict=True)
    ]
    for made, attesters in zip(order.transitions, order.attesters, strict=False):
        signed += [(made, signer) for signer in attesters.signers]
    return signed
