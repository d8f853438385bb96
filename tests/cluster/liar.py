"""A node that lies: `rota` in a process of its own, with functions of its own core and runtime replaced.

    python liar.py ROLE node FOLDER --json

Keys, database, transport, chain and all that the role does not touch are those of `rota node FOLDER --json`. A liar
sees all that its node is told, and all that its node does passes through it. It has its node's keys, so it signs as its
own parties and as itself, and it commits rounds whose signatures it holds. What it did and heard it notes in the file
`lies` of its folder, a JSON object a line; SIGUSR1 tells it to lie now, where the role waits for that.

A credulous role does not lie: it is an honest node without one defence, for tests that show what that defence is for.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import Final

from rota.__main__ import run
from rota.engine.intent_ids import DrawnId, IntentIds
from rota.keys import signatures
from rota.keys.names import REGISTRAR
from rota.keys.secp256k1 import to_compact
from rota.ledger.account import Account, AccountLimits
from rota.ledger.submission import Commit, commit_of
from rota.machine.effects import DispatchRound, Effect, SendMessage
from rota.machine.events import MessageReceived
from rota.machine.tables import Event
from rota.model import consistency
from rota.model.digests import PAGE_BYTES, bound_hash, is_id_of, leaf_of_transition, round_digest, state_commitment
from rota.model.types import (
    ContractAddress,
    Digest,
    IntentId,
    NodeName,
    Party,
    RequestId,
    State,
    StateId,
    Transition,
    node_of,
)
from rota.sequencer import sender_transaction
from rota.sequencer.context import Context
from rota.service.run import RunningNode
from rota.store import records
from rota.store.listening import COMMITTED_IN_BLOCK
from rota.wire.messages import (
    AssembleRequest,
    CoordinatorHeartbeat,
    DelegationRejected,
    DispatchConfirmationError,
    DispatchConfirmationRequest,
    DispatchConfirmationResponse,
    EndorsementError,
    EndorsementRequest,
    EndorsementResponse,
    ErrorCode,
    Message,
    StateDistribution,
)

NOTES: Final = "lies"
TRUTH: Final = b"truth"
LIE: Final = b"false"


class Liar:
    """Stands between a core and its world. A role overrides what it lies about."""

    def __init__(self, running: RunningNode, notes: Path) -> None:
        self.running: Final = running
        self.name: Final = running.name
        self._notes: Final = notes
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._asked: Final[dict[RequestId, tuple[ContractAddress, EndorsementRequest]]] = {}
        self._committed: Final[set[Digest]] = set()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self.lie_now)

    def hears(self, event: MessageReceived) -> None:
        """What a node says to ours, before our core is told."""

    def says(self, message: SendMessage) -> Iterable[SendMessage]:
        """What is sent in place of this."""
        return (message,)

    def lie_now(self) -> None:
        """The test says that it is time."""

    # What it can do.

    def note(self, what: str, **more: object) -> None:
        with self._notes.open("a") as file:
            file.write(json.dumps({"what": what, **more}) + "\n")

    def context(self, contract: ContractAddress) -> Context:
        return self.running.engine.core.sequencers.loaded[contract].context

    def send(self, contract: ContractAddress, peer: NodeName, body: Message) -> None:
        """Say something that our core does not."""
        effects = self.context(contract).effects
        before = len(effects)
        self.context(contract).send(peer, body)
        said = effects[before:]
        del effects[before:]
        for message in said:
            assert isinstance(message, SendMessage), "nothing else was asked for"
            self.running.adapters.peers.send(message)

    async def signed_as(self, party: Party, transition: Transition) -> Transition:
        """A transition with the signature of a party of ours."""
        keys = self.running.adapters.services._signatures
        hash_signed = signatures.leaf_hash(transition.leaf, transition.valid_until_s)
        return replace(transition, signature=to_compact(await keys._signer.sign(keys.key_of(party), hash_signed)))

    def made_anew(self, contract: ContractAddress, transition: Transition) -> Transition:
        """The transition under its own leaf, and its states called after that."""
        leaf = leaf_of_transition(self.context(contract).separator, transition)
        outputs = tuple(replace(state, id=StateId(leaf, n)) for n, state in enumerate(transition.outputs))
        return replace(transition, leaf=leaf, outputs=outputs)

    def ask_to_endorse(
        self, contract: ContractAddress, transition: Transition, sender: Party, nonce: bytes, valid_until_s: int
    ) -> None:
        """A round of this one transition, of every other endorser; `take_endorsement` has what they answer."""
        context = self.context(contract)
        digest = round_digest(context.separator, (transition.leaf,), valid_until_s)
        for endorser in context.contract.endorsers:
            if endorser != self.name:
                request = EndorsementRequest(
                    context.next_id(), digest, (transition,), (sender,), valid_until_s, nonces=(nonce,)
                )
                self._asked[request.request_id] = (contract, request)
                self.send(contract, endorser, request)

    def take_endorsement(self, event: MessageReceived) -> None:
        """A signature is used at once, on the chain."""
        answer = event.envelope.body
        if not isinstance(answer, EndorsementResponse | EndorsementError) or answer.request_id not in self._asked:
            return
        contract, request = self._asked.pop(answer.request_id)
        if isinstance(answer, EndorsementResponse) and answer.signature:
            self.note("endorsed", by=event.peer)
            if request.digest in self._committed:
                return
            self._committed.add(request.digest)
            self.begin(self.commit(contract, request, ((event.peer, answer.signature),)))
        else:
            refused = answer.refusals[0].reason if isinstance(answer, EndorsementResponse) else answer.rejection.value
            self.note("refused", by=event.peer, reason=refused)

    async def commit(
        self, contract: ContractAddress, request: EndorsementRequest, others: tuple[tuple[NodeName, bytes], ...] = ()
    ) -> None:
        """Bring a round to the chain by our own signature and those of others, whatever our core thinks of it."""
        own = await self.running.adapters.services._signatures.sign_as_endorser(contract, request.digest)
        leaves = tuple(transition.leaf for transition in request.transitions)
        order = DispatchRound(
            contract,
            request.digest,
            leaves,
            request.transitions,
            (self.name,),
            ((self.name, own), *others),
            request.valid_until_s,
        )
        policy = self.running.contracts.policy_of(contract)
        assert policy is not None, "it is a contract of ours"
        call = commit_of(order, policy)
        assert isinstance(call, Commit), call
        chain = self.running.adapters.public_chain
        limits = AccountLimits(look_ms=20, looks_max=3_000)
        account = Account(chain._client, chain._chain_id, chain._signer, REGISTRAR, limits)
        await account.transact(contract, call.call_data, gas_limit=call.gas_limit)
        self.note("committed", leaf=leaves[0].hex())

    def begin(self, work: object) -> None:
        assert asyncio.iscoroutine(work)
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.note("failed", reason=repr(error))


class Squatter(Liar):
    """Takes the next id of a member whose transition it was asked to endorse.

    Its users' transactions go under that id, which brings it to a coordinator. Where it coordinates itself, it asks the
    endorsers for a transition of its own party under that id.
    """

    stolen: Final[dict[ContractAddress, DrawnId]] = {}

    def hears(self, event: MessageReceived) -> None:
        self.take_endorsement(event)
        contract, body = event.envelope.contract, event.envelope.body
        if isinstance(body, DelegationRejected):
            self.note("rejected", by=event.peer, reason=body.rejection.value)
        if isinstance(body, EndorsementRequest):
            self._steal(contract, body)

    def says(self, message: SendMessage) -> Iterable[SendMessage]:
        contract, body = message.envelope.contract, message.envelope.body
        if isinstance(body, EndorsementRequest) and self._steal(contract, body):
            self.begin(self._use(contract, body.transitions[0]))
        return (message,)

    def _steal(self, contract: ContractAddress, request: EndorsementRequest) -> bool:
        seen, sender = request.transitions[0], request.senders[0]
        if contract in self.stolen or node_of(sender) == self.name:
            return False
        following = IntentId(seen.intent[:PAGE_BYTES] + bytes([seen.intent[-1] + 1]))
        self.stolen[contract] = DrawnId(following, request.nonces[0])
        self.note("stolen", id=following.hex(), sender=sender)
        return True

    async def _use(self, contract: ContractAddress, seen: Transition) -> None:
        stolen, ours = self.stolen[contract], Party(f"mallory@{self.name}")
        wanted = self.made_anew(contract, replace(seen, intent=stolen.id))
        signed = await self.signed_as(ours, wanted)
        self.ask_to_endorse(contract, signed, ours, stolen.nonce, signed.valid_until_s)


class Usurper(Liar):
    """A notary that commits a transition of its own under the id of an intent that it was to coordinate."""

    def __init__(self, running: RunningNode, notes: Path) -> None:
        super().__init__(running, notes)
        self._used: Final[set[IntentId]] = set()

    def says(self, message: SendMessage) -> Iterable[SendMessage]:
        """The member has signed its leaf; in place of asking for its permission the notary uses the id."""
        contract, body = message.envelope.contract, message.envelope.body
        if not isinstance(body, DispatchConfirmationRequest) or message.peer == self.name:
            return (message,)
        item = body.items[0]
        if item.intent not in self._used:
            self._used.add(item.intent)
            content = b"nothing that anybody asked for"
            state = State(StateId(item.leaf, 0), state_commitment(content), (self.name, message.peer), content)
            ours = Transition(item.intent, item.leaf, outputs=(state,), valid_until_s=item.valid_until_s)
            # The member's signature of its own leaf, for whoever does not look what it is of.
            signed = replace(self.made_anew(contract, ours), signature=item.signature)
            digest = round_digest(self.context(contract).separator, (signed.leaf,), item.valid_until_s)
            request = EndorsementRequest(self.context(contract).next_id(), digest, (signed,), (), item.valid_until_s)
            self.begin(self._commit_and_tell(contract, request, message.peer))
        return ()

    async def _commit_and_tell(self, contract: ContractAddress, request: EndorsementRequest, member: NodeName) -> None:
        """The member gets the states, as if the transition were its own."""
        await self.commit(contract, request)
        self.send(contract, member, StateDistribution(request.digest, request.transitions))


class Reviver(Liar):
    """A coordinator that has a transition assembled, asks nobody to endorse it, and asks long after its bound."""

    def __init__(self, running: RunningNode, notes: Path) -> None:
        super().__init__(running, notes)
        self._kept: tuple[ContractAddress, EndorsementRequest] | None = None

    def hears(self, event: MessageReceived) -> None:
        self.take_endorsement(event)

    def says(self, message: SendMessage) -> Iterable[SendMessage]:
        contract, body = message.envelope.contract, message.envelope.body
        if not isinstance(body, EndorsementRequest):
            return (message,)
        if self._kept is None:
            self._kept = (contract, body)
            self.note("withheld", intent=body.transitions[0].intent.hex())
        return ()

    def lie_now(self) -> None:
        assert self._kept is not None, "something was withheld"
        contract, body = self._kept
        signed, sender, nonce = body.transitions[0], body.senders[0], body.nonces[0]
        later_s = self.context(contract).chain_time_s + self.running.config.validity_s
        for transition, valid_until_s in (
            (replace(signed, valid_until_s=later_s), later_s),
            (signed, later_s),
            (signed, signed.valid_until_s),
        ):
            self.ask_to_endorse(contract, transition, sender, nonce, valid_until_s)


class Planter(Liar):
    """A coordinator that asks for permission once the sender has restarted, with contents of its own.

    First they do not have the commitments that the leaf binds; then the commitments are those of the contents, and the
    leaf is not that of the transition. If one is permitted it commits the leaf; else it goes on as it should have.
    """

    def __init__(self, running: RunningNode, notes: Path) -> None:
        super().__init__(running, notes)
        self._incarnations: Final[dict[NodeName, int]] = {}
        self._rounds: Final[dict[Digest, EndorsementRequest]] = {}
        self._signatures: Final[dict[Digest, tuple[NodeName, bytes]]] = {}
        self._withheld: DispatchConfirmationRequest | None = None
        self._has_restarted = False
        self._lies: Final[list[Callable[[State], State]]] = [_with_other_content, _with_other_commitment]
        self._said: Final[set[RequestId]] = set()

    def hears(self, event: MessageReceived) -> None:
        before = self._incarnations.setdefault(event.peer, event.envelope.incarnation)
        if event.envelope.incarnation > before:
            self._has_restarted = True
        contract, answer = event.envelope.contract, event.envelope.body
        if isinstance(answer, EndorsementResponse) and answer.signature:
            self._signatures[answer.digest] = (event.peer, answer.signature)
        elif isinstance(answer, DispatchConfirmationResponse) and answer.request_id in self._said:
            self._note_answer("permitted")
            assert self._withheld is not None, "permission was asked for it"
            digest = self._withheld.digest
            self.begin(self.commit(contract, self._rounds[digest], (self._signatures[digest],)))
            self._lies.clear()
        elif isinstance(answer, DispatchConfirmationError) and answer.request_id in self._said:
            code = answer.errors[0].code
            if code in (ErrorCode.STATES_MISSING, ErrorCode.WRONG_LEAF):
                self._note_answer(code.value)

    def says(self, message: SendMessage) -> Iterable[SendMessage]:
        """Nothing is assembled anew meanwhile; a heartbeat tells the sender that its intent is in good hands."""
        contract, body = message.envelope.contract, message.envelope.body
        match body:
            case EndorsementRequest():
                self._rounds[body.digest] = body
            case DispatchConfirmationRequest() if self._lies:
                if self._withheld is None:
                    self._withheld = body
                    self.note("withheld")
                return ()
            case AssembleRequest() if self._lies and self._withheld is not None:
                return ()
            case CoordinatorHeartbeat() if self._lies and self._withheld is not None and self._has_restarted:
                self._plant(contract, message.peer, self._withheld)
            case _:
                pass
        return (message,)

    def _plant(self, contract: ContractAddress, peer: NodeName, withheld: DispatchConfirmationRequest) -> None:
        (made,), (item,) = self._rounds[withheld.digest].transitions, withheld.items
        false = replace(made, outputs=tuple(map(self._lies[0], made.outputs)))
        request_id = self.context(contract).next_id()
        self._said.add(request_id)
        planted = (replace(item, transition=false),)
        self.send(contract, peer, DispatchConfirmationRequest(request_id, withheld.digest, planted))

    def _note_answer(self, answer: str) -> None:
        self._said.clear()
        self._lies.pop(0)
        self.note("answered", answer=answer)


def _with_other_content(state: State) -> State:
    assert state.content is not None, "the coordinator endorses too"
    assert TRUTH.hex().encode() in state.content, "the test's own text is in what it makes"
    return replace(state, content=state.content.replace(TRUTH.hex().encode(), LIE.hex().encode()))


def _with_other_commitment(state: State) -> State:
    false = _with_other_content(state)
    assert false.content is not None, "it has a content"
    return replace(false, commitment=state_commitment(false.content))


LIARS: Final[dict[str, type[Liar]]] = {"squatter": Squatter, "usurper": Usurper, "reviver": Reviver, "planter": Planter}

# Honest nodes without one defence: what stands in the place of which function.
CREDULOUS: Final[dict[str, tuple[tuple[object, object], ...]]] = {
    "believes-any-id": ((is_id_of, lambda *_: True),),
    "believes-any-commit": ((sender_transaction.is_by_another, lambda *_: False),),
    "believes-any-bound": ((bound_hash, lambda leaf, *_: leaf),),
    "believes-any-content": ((consistency.flaw_of, lambda *_: ""),),
}


def become_credulous(role: str) -> None:
    """Whoever has imported a function calls what stands in its place."""
    for function, instead in CREDULOUS[role]:
        assert isinstance(function, FunctionType)
        assert isinstance(instead, FunctionType)
        function.__code__ = instead.__code__
    if role == "believes-any-commit":
        # The store looks at the leaf too, so that a restart decides as the core does.
        of_the_block = f"SELECT intent FROM outcomes WHERE {COMMITTED_IN_BLOCK}"
        records._SETTLED = (  # type: ignore[misc]
            f"UPDATE intents SET settled_at = ? WHERE id IN ({of_the_block}) AND ? IS NOT NULL"
        )


def become_liar(kind: type[Liar], notes: Path) -> None:
    """All that this process's node is told and does passes through a liar."""
    perform, tell = RunningNode._perform, RunningNode.tell
    liars: dict[RunningNode, Liar] = {}

    def liar_of(running: RunningNode) -> Liar:
        if running not in liars:
            liars[running] = kind(running, notes)
        return liars[running]

    def lying_perform(self: RunningNode, effect: Effect) -> None:
        for each in liar_of(self).says(effect) if isinstance(effect, SendMessage) else (effect,):
            perform(self, each)

    def listening_tell(self: RunningNode, event: Event) -> None:
        if isinstance(event, MessageReceived):
            liar_of(self).hears(event)
        tell(self, event)

    RunningNode._perform = lying_perform  # type: ignore[method-assign]
    RunningNode.tell = listening_tell  # type: ignore[method-assign]
    if kind is Squatter:
        _draw_stolen_ids()


def _draw_stolen_ids() -> None:
    draw = IntentIds.next

    def steal(self: IntentIds, party: Party, contract: ContractAddress) -> DrawnId:
        return Squatter.stolen.get(contract) or draw(self, party, contract)

    IntentIds.next = steal  # type: ignore[method-assign]
    become_credulous("believes-any-id")


if __name__ == "__main__":
    ROLE = sys.argv.pop(1)
    if ROLE in CREDULOUS:
        become_credulous(ROLE)
    else:
        become_liar(LIARS[ROLE], Path(sys.argv[sys.argv.index("node") + 1]) / NOTES)
    run()
