"""What domain, signer and key store answer to the core: the effects that compute, and the events that they end in.

Theory of operation. What the core asks of a domain is answered by pure functions (`rota.hosting`) on what this node
holds of the contract's states; what it asks of keys by `keys.Signatures`. One question about the states of a contract
is answered at a time, in the order in which it was asked, since an endorser checks a round on top of the one before.

What the world cannot do now is not answered: the core asks again by its own rule. An operator sees why (`troubles`).
An exception of a domain is its own fault and ends nothing but that answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Final

from rota import hosting
from rota.core.effects import (
    AssembleIntents,
    CheckRound,
    Effect,
    LookUpVerifier,
    SignTransition,
    VerifyEndorsement,
    VerifySignature,
)
from rota.core.events import AssemblyFailed, ForContract, RoundChecked
from rota.core.machine import Event
from rota.domains.base import Lacking
from rota.hosting import Checked
from rota.keys.signatures import Signatures, has_signed_leaf
from rota.messages import Refusal
from rota.ports import Store, Tell, Unavailable
from rota.runtime.contracts import KnownContracts
from rota.runtime.held_states import HeldStates
from rota.runtime.verifiers import Verifiers
from rota.types import ContractAddress, NodeName, Party, State, StateId

TROUBLES_MAX: Final = 256
RECALLS_MAX: Final = 32

DomainOrder = AssembleIntents | CheckRound


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
    ) -> None:
        self._node: Final = node
        self._contracts: Final = contracts
        self._signatures: Final = signatures
        self._store: Final = store
        self._held: Final = held
        self._verifiers: Final = verifiers
        self._tell: Final = tell
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._turns: Final[dict[ContractAddress, asyncio.Lock]] = {}
        self._troubles: Final[dict[ContractAddress, str]] = {}

    @property
    def troubles(self) -> dict[ContractAddress, str]:
        """What kept the latest question of each contract from being answered; nothing when it was answered."""
        return dict(self._troubles)

    def perform(self, effect: Effect) -> None:
        """Begin to answer."""
        match effect:
            case VerifySignature(contract):
                self._tell(ForContract(contract, self._signatures.verify_signature(effect)))
            case VerifyEndorsement(contract):
                self._tell(ForContract(contract, self._signatures.verify_endorsement(effect)))
            case LookUpVerifier(contract):
                self._tell(ForContract(contract, self._signatures.look_up_verifier(effect)))
            case SignTransition():
                self._begin(self._sign(effect))
            case AssembleIntents():
                self._begin(self._in_turn(effect, self._assemble))
            case CheckRound():
                self._begin(self._in_turn(effect, self._check))
            case _:
                raise AssertionError(f"the runtime does not know {type(effect).__name__}")

    async def close(self) -> None:
        """Give up what is being answered."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, answering: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(answering)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def _in_turn(self, order: DomainOrder, answer: Callable[[DomainOrder], Awaitable[list[Event]]]) -> None:
        """One after the other within a contract; what the world cannot do now is left unanswered."""
        lock = self._turns.setdefault(order.contract, asyncio.Lock())
        async with lock:
            try:
                events = await answer(order)
            except Unavailable as trouble:
                if len(self._troubles) < TROUBLES_MAX:
                    self._troubles[order.contract] = str(trouble)
                return
        if not lock.locked():
            self._turns.pop(order.contract, None)
        self._troubles.pop(order.contract, None)
        for event in events:
            self._tell(ForContract(order.contract, event))

    async def _sign(self, order: SignTransition) -> None:
        self._tell(ForContract(order.contract, await self._signatures.sign_transition(order)))

    # Users.

    async def call(self, hosted: hosting.Hosted, asked: hosting.UserCall) -> object:
        """What a view answers from what this node holds now. `domains.base.Rejected` names what is to be mended.

        What the domain lacks may be in the store, spent; then it is asked again with that.
        """
        contract = hosted.contract.address
        recalled: dict[StateId, State] = {}
        verifiers = {asked.sender: self._signatures.verifier_of(asked.sender)}
        background = hosting.Background(recalled.get, verifiers)
        for _ in range(RECALLS_MAX):
            held = await self._held.of(hosted)
            try:
                return hosting.call(hosted, asked, held, self._node, background)
            except Lacking as lacking:
                found = await self._store.states(contract, (lacking.state,))
                if not found or lacking.state in recalled:
                    raise Unavailable(str(lacking)) from None
                recalled.update({state.id: state for state in found})
        raise Unavailable(f"more than {RECALLS_MAX} spent states of {contract} are needed for an answer")

    # The domain.

    async def _assemble(self, order: DomainOrder) -> list[Event]:
        assert isinstance(order, AssembleIntents), "an assembly"
        hosted = self._contracts.hosted(order.contract)
        if hosted is None:
            reason = f"the domain of {order.contract} is not loaded here"
            return [AssemblyFailed(order.request_id, intent.id, reason) for intent in order.intents]
        parties = [party for intent in order.intents for party in (intent.sender, *intent.parties)]
        verifiers = await self._verifiers.of(order.contract, parties)
        held = await self._held.of(hosted)
        return [*hosting.assemble(hosted, order, held, self._node, hosting.Background(verifiers=verifiers))]

    async def _check(self, order: DomainOrder) -> list[Event]:
        """A round is judged by its signatures first, then by its domain, and signed when all is right."""
        assert isinstance(order, CheckRound), "a round"
        hosted = self._contracts.hosted(order.contract)
        if hosted is None:
            raise Unavailable(f"the domain of {order.contract} is not loaded here")
        verifiers = await self._verifiers.of(order.contract, order.senders)
        refusals = _unsigned(order, verifiers)
        if refusals:
            return [RoundChecked(order.peer, order.request_id, refusals=refusals)]
        checked = await self._judge(hosted, order, verifiers)
        signature = b""
        if not checked.refusals and not checked.missing:
            signature = await self._signatures.sign_round(order.contract, order.digest)
        return [RoundChecked(order.peer, order.request_id, signature, checked.refusals, checked.missing)]

    async def _judge(self, hosted: hosting.Hosted, order: CheckRound, verifiers: Mapping[Party, str]) -> Checked:
        """What the domain lacks may be in the store: spent, or not yet confirmed. Then it is asked again with that."""
        recalled: dict[StateId, State] = {}
        background = hosting.Background(recalled.get, verifiers)
        held = await self._held.of(hosted)
        checked = hosting.check(hosted, order, held, self._node, background)
        for _ in range(RECALLS_MAX):
            unknown = [state for state in checked.missing if state not in recalled]
            found = await self._store.states(order.contract, unknown) if unknown else ()
            if not found:
                break
            recalled.update({state.id: state for state in found})
            checked = hosting.check(hosted, order, held, self._node, background)
        return checked


def _unsigned(order: CheckRound, verifiers: Mapping[Party, str]) -> tuple[Refusal, ...]:
    """An endorser checks that each leaf bears the signature of its `from` party (protocol §4.3)."""
    return tuple(
        Refusal(transition.intent, f"the signature is not that of {sender}")
        for transition, sender in zip(order.transitions, order.senders, strict=True)
        if not has_signed_leaf(verifiers[sender], transition.leaf, transition.signature)
    )
