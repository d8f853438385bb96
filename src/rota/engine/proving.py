"""Proofs in place of signatures: of contracts whose ledger has each transition proved.

Theory of operation. The core has a transition signed once it is assembled, and goes on when it is. Here the intent's
own key signs it (`keys.one_time`) and a proof is made, in another process, while the next transitions are assembled.
Both bind the leaf and its validity. What is in a transition is kept from its assembly until then; the core never knows.
An empty transition is only signed, so that an intent is voided without a prover.

A proof takes longer than the core likes to wait. When it asks again, the same intent on the same coins becomes the
same leaf (`rota.host`), and then the proof that was made, or that is being made, still serves: with the validity that
it has. Without that, a slow machine would never come to an end. Proofs are kept in the store too, until their intents
have ended: a node that is started again does not prove again what it had proved.

A proof may be about a tree of all commitments, and then is for what the tree was when it was made; that is shown with
it. What the ledger does not take any more is proved anew.

For what makes coins of nothing the issuer's node signs, with the key by which the contract knows it. It signs so too
for a public call that only the issuer may make: that key sends nothing. What makes coins of the sender's public tokens
has the signature of the sender's own address before its proof.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from rota.domains.base import Behind, Claim, Prover, Roots, Roster
from rota.engine.commitment_trees import CommitmentTrees
from rota.engine.contracts import KnownContracts
from rota.engine.owner_secrets import OwnerSecrets
from rota.engine.rosters import Rosters
from rota.host import Hosted
from rota.host.contracts import bounded, told_of
from rota.host.proving import Revealed
from rota.keys.names import endorser_key, party_key
from rota.keys.one_time import OneTimeKeys, is_signed_by_intent
from rota.keys.secp256k1 import to_compact
from rota.ledger.proofs import binding_of, rooted, roots_and_proof, signature_and_rest
from rota.logs import catalogue
from rota.machine.effects import LookUpVerifier
from rota.machine.events import VerifierLookedUp
from rota.machine.tables import Event
from rota.model.digests import keccak, void_leaf
from rota.model.types import ContractAddress, IntentId, Leaf, NodeName, Party
from rota.ports import Background, KeyHolder, ProofBook, StoredProof, Unavailable, UnknownKey
from rota.sequencer.effects import SignTransition, VerifySignature
from rota.sequencer.events import AssemblyFailed, AssemblyFinished, SignatureVerified, TransitionSigned

KEPT_MAX: Final = 4_096
# A proof that is kept is used again while it is valid for nearly as long as a new one would be.
OLDER_S_MAX: Final = 300

V = TypeVar("V")
# Whether a contract takes these roots. `Unavailable` when the chain cannot tell.
AreTaken = Callable[[ContractAddress, Roots], Awaitable[bool]]


@dataclass(slots=True)
class _Proof:
    """A proof that is being made or was made, and until when it will be valid."""

    valid_until_s: int
    made: asyncio.Future[bytes]


class _OwnKeys(Mapping[Party, str]):
    """Answers for every party of a node; how many there could be nobody knows."""

    def __init__(self, proving: Proving, contract: ContractAddress) -> None:
        self._proving: Final = proving
        self._contract: Final = contract

    def __getitem__(self, party: Party) -> str:
        verifier = self._proving.verifier_of(self._contract, party)
        if not verifier:
            raise KeyError(party)
        return verifier

    def __iter__(self) -> Iterator[Party]:
        return iter(())

    def __len__(self) -> int:
        return 0


class Proving:
    """Of one node."""

    def __init__(
        self,
        node: NodeName,
        contracts: KnownContracts,
        keys: KeyHolder,
        secrets: OwnerSecrets,
        prover: Prover,
        book: ProofBook,
        trees: CommitmentTrees,
        rosters: Rosters,
        are_taken: AreTaken,
    ) -> None:
        self._one_time_keys: Final = OneTimeKeys(node, keys)
        self._node: Final = node
        self._contracts: Final = contracts
        self._keys: Final = keys
        self._secrets: Final = secrets
        self._prover: Final = prover
        self._book: Final = book
        self._trees: Final = trees
        self._rosters: Final = rosters
        self._are_taken: Final = are_taken
        self._revealed: Final[OrderedDict[Leaf, Revealed]] = OrderedDict()
        self._proofs: Final[OrderedDict[Leaf, _Proof]] = OrderedDict()
        # Intents of which the store has a proof.
        self._in_book: Final[set[IntentId]] = set()
        self._prepared: Final[set[object]] = set()
        self._tasks: Final = Background("proofs")

    async def begin(self) -> None:
        """Take over the proofs of the previous run. `Unavailable` when the store is away."""
        for stored in await self._book.restore():
            made: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            made.set_result(stored.proof)
            _keep(self._proofs, stored.leaf, _Proof(stored.valid_until_s, made))
            self._in_book.add(stored.intent)

    def prepare_for(self, contract: ContractAddress) -> None:
        """The node has this contract: the prover reads what it needs for it, before the first proof is wanted."""
        hosted = self._contracts.hosted(contract)
        wanted = hosted.domain.circuits(hosted.configuration) if hosted is not None else ()
        new = tuple(circuit for circuit in wanted if circuit not in self._prepared)
        if new:
            self._prepared.update(new)
            self._start(self._prepare(new))

    async def _prepare(self, circuits: tuple[object, ...]) -> None:
        try:
            await self._prover.prepare(circuits)
        except Unavailable as trouble:
            # The first proof tries again, and says the same to whoever wants it.
            catalogue.PROVER_NOT_READY.log(reason=str(trouble))

    def is_for(self, contract: ContractAddress) -> bool:
        """Whether the transitions of this contract are proved."""
        hosted = self._contracts.hosted(contract)
        return hosted is not None and bool(hosted.domain.ledgers)

    async def close(self) -> None:
        """Give up what is being proved."""
        await self._tasks.close()

    # Parties.

    def look_up_verifier(self, order: LookUpVerifier) -> VerifierLookedUp:
        """By what others know a party of ours in this contract, or nothing."""
        verifier = self.verifier_of(order.contract, order.party)
        return VerifierLookedUp(order.peer, order.request_id, order.party, verifier)

    def verifier_of(self, contract: ContractAddress, party: Party) -> str:
        """The key of a party of ours; empty when we have none for it."""
        hosted = self._contracts.hosted(contract)
        assert hosted is not None, "only a contract with its domain proves"
        try:
            return hosted.domain.verifier_of(self._secrets.of(party))
        except UnknownKey:
            return ""

    def keys_in(self, contract: ContractAddress) -> Mapping[Party, str]:
        """The keys of our own parties, as they are asked for."""
        return _OwnKeys(self, contract)

    async def roster_of(self, hosted: Hosted) -> Roster | None:
        """The owners of a contract whose ledger has a roster. `Unavailable` when the chain does not answer."""
        return await self._rosters.of(hosted)

    # Transitions.

    def take(self, events: Iterable[Event], revealed: Mapping[Leaf, Revealed]) -> list[Event]:
        """Keep what is in the transitions until they are proved; what has a proof already has its validity."""
        for leaf, each in revealed.items():
            _keep(self._revealed, leaf, each)
        return [self._with_kept_validity(event) for event in events]

    async def sign_transition(self, order: SignTransition) -> TransitionSigned | AssemblyFailed:
        """The signature of the intent's key, then the proof of the transition or the issuer's signature of it."""
        try:
            proof = await self._proof_of(order)
        except Exception as error:
            is_for_now = isinstance(error, Unavailable | Behind)
            reason = str(error) if is_for_now else f"it cannot be proved: {told_of(error)}"
            return AssemblyFailed(order.request_id, order.intent, bounded(reason))
        return TransitionSigned(order.request_id, order.intent, proof)

    def verify_signature(self, order: VerifySignature) -> SignatureVerified:
        """Does it bear the signature of the intent's key, which only we have?"""
        is_ours = is_signed_by_intent(order.intent, order.leaf, order.valid_until_s, order.signature)
        return SignatureVerified(order.request_id, order.intent, is_ours)

    def ended(self, intent: IntentId) -> None:
        """Nothing of this intent will be proved again."""
        if intent in self._in_book:
            self._in_book.discard(intent)
            self._start(self._forget(intent))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.begin(work)

    def _with_kept_validity(self, event: Event) -> Event:
        transition = event.transition if isinstance(event, AssemblyFinished) else None
        kept = self._proofs.get(transition.leaf) if transition is not None else None
        if transition is None or kept is None or kept.valid_until_s < transition.valid_until_s - OLDER_S_MAX:
            return event
        assert isinstance(event, AssemblyFinished), "what has a transition was assembled"
        return replace(event, transition=replace(transition, valid_until_s=kept.valid_until_s))

    async def _proof_of(self, order: SignTransition) -> bytes:
        kept = self._proofs.get(order.leaf)
        if kept is None or kept.valid_until_s != order.valid_until_s or not await self._is_good(order, kept):
            kept = _Proof(order.valid_until_s, asyncio.get_running_loop().create_future())
            _keep(self._proofs, order.leaf, kept)
            self._start(self._make(order, kept))
        return await asyncio.shield(kept.made)

    async def _is_good(self, order: SignTransition, kept: _Proof) -> bool:
        """Whether the ledger still takes the roots that this proof is for, if it is for any."""
        _, proof = signature_and_rest(kept.made.result()) if kept.made.done() else (b"", b"")
        roots, _ = roots_and_proof(proof)
        return roots == Roots() or await self._are_taken(order.contract, roots)

    async def _make(self, order: SignTransition, wanted: _Proof) -> None:
        """Whoever waits is told; what failed is not kept."""
        try:
            proof = await self._made(order)
        except BaseException as error:
            if self._proofs.get(order.leaf) is wanted:
                del self._proofs[order.leaf]
            if isinstance(error, asyncio.CancelledError):
                wanted.made.cancel()
                raise
            wanted.made.set_exception(error)
            wanted.made.exception()  # Whoever waited may have gone: then nobody else asks for it.
        else:
            wanted.made.set_result(proof)

    async def _made(self, order: SignTransition) -> bytes:
        hosted = self._contracts.hosted(order.contract)
        assert hosted is not None, "only a contract with its domain proves"
        binding = binding_of(order.leaf, order.valid_until_s)
        own = self._one_time_keys.sign(order.party, order.contract, order.nonce, order.intent, binding)
        if order.leaf == void_leaf(hosted.separator, order.intent):
            return own
        revealed = self._revealed.get(order.leaf)
        if revealed is None:
            raise Unavailable("what is to be proved is not known any more")
        roster = await self._rosters.of(hosted)
        claim = Claim(
            hosted.configuration,
            order.party,
            self._secrets.of(order.party),
            binding,
            revealed.spends,
            revealed.makes,
            revealed.preparation,
            revealed.calls,
            revealed.reads,
            await self._trees.of(hosted),
            roster,
        )
        statement = hosted.domain.statement(claim)
        if statement is None:
            return own + await self._issued(hosted, binding)
        depositor = b""
        if hosted.domain.is_signed_too(claim):
            depositor = to_compact(await self._keys.sign(party_key(order.party), binding))
        proof, shown = await self._prover.prove(statement), hosted.domain.shown_with(statement)
        proof = own + depositor + rooted(shown, proof)
        await self._note(StoredProof(order.intent, order.leaf, order.valid_until_s, proof))
        return proof

    async def countersigned(self, sender: Party, contract: ContractAddress | None, call: bytes) -> bytes:
        """A public call of a party of ours, with the issuer's signature behind it where the contract wants that."""
        hosted = self._contracts.hosted(contract) if contract is not None else None
        if hosted is None or not hosted.domain.is_issuers(hosted.configuration, sender, call):
            return call
        return call + await self._issued(hosted, keccak(hosted.separator + call))

    async def _note(self, proof: StoredProof) -> None:
        """Before it is used; one that the store does not take is good all the same."""
        with suppress(Unavailable):
            await self._book.keep(proof)
            self._in_book.add(proof.intent)

    async def _forget(self, intent: IntentId) -> None:
        with suppress(Unavailable):
            await self._book.forget(intent)

    async def _issued(self, hosted: Hosted, binding: bytes) -> bytes:
        contract = hosted.contract.address
        deployment, policy = self._contracts.deployment_of(contract), self._contracts.policy_of(contract)
        assert deployment is not None, "a hosted contract was deployed"
        assert policy is not None, "a hosted contract has a policy"
        name = endorser_key(self._node, deployment)
        if (self._node, self._keys.address_of(name)) not in policy.endorsers:
            raise Unavailable(f"{contract} is not issued by {self._node}")
        return to_compact(await self._keys.sign(name, binding))


def _keep(kept: OrderedDict[Leaf, V], leaf: Leaf, value: V) -> None:
    kept[leaf] = value
    kept.move_to_end(leaf)
    if len(kept) > KEPT_MAX:
        kept.popitem(last=False)
