"""Proofs in place of signatures: for contracts whose ledger has each transition proved.

Theory of operation. The core orders a signature once a transition is assembled, and continues when it has it. Here the
intent's own key signs the transition (`keys.one_time`), and another process makes a proof while the next transitions
are assembled. Both bind the leaf and its validity. The contents of a transition are kept here from its assembly until
then; the core never gets them. An empty transition is only signed, so that an intent is voided without a prover.

A proof takes longer than the core's timeout. When the core repeats the order, the same intent on the same coins has the
same leaf (`rota.host`), and the proof that was made or is being made is used: with the validity that it has. Otherwise
a slow machine would never finish. Proofs are stored too, until their intents have ended: a node does not repeat them
after a restart.

A proof may refer to a tree of all commitments, as it was when the proof was made; its root is sent with the proof. When
the ledger no longer accepts that root, the proof is made again.

For a transition that makes coins of nothing the issuer's node signs, with the key that the contract has for it. It also
countersigns a public call that only the issuer may make, since that key sends no transactions. A transition that makes
coins of the sender's public tokens has the signature of the sender's own address before its proof.
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
# A kept proof is reused while its validity is nearly as long as that of a new one.
OLDER_S_MAX: Final = 300

V = TypeVar("V")
# Whether a contract accepts these roots. `Unavailable` when the chain cannot answer.
AreTaken = Callable[[ContractAddress, Roots], Awaitable[bool]]


@dataclass(slots=True)
class _Proof:
    """A proof that is being made or was made, and the time until which it is valid."""

    valid_until_s: int
    made: asyncio.Future[bytes]


class _OwnKeys(Mapping[Party, str]):
    """Looks up the key of any party of a node; cannot be iterated, as their number is unknown."""

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
    """The proofs of one node."""

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
        """Take over the proofs of the previous run. `Unavailable` when the store is not reachable."""
        for stored in await self._book.restore():
            made: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            made.set_result(stored.proof)
            _keep(self._proofs, stored.leaf, _Proof(stored.valid_until_s, made))
            self._in_book.add(stored.intent)

    def prepare_for(self, contract: ContractAddress) -> None:
        """Have the prover load the circuits of this contract, before the first proof is needed."""
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
            # The first proof tries again, and its caller gets the same error.
            catalogue.PROVER_NOT_READY.log(reason=str(trouble))

    def is_for(self, contract: ContractAddress) -> bool:
        """Whether the transitions of this contract are proved."""
        hosted = self._contracts.hosted(contract)
        return hosted is not None and bool(hosted.domain.ledgers)

    async def close(self) -> None:
        """Cancel the proofs in progress."""
        await self._tasks.close()

    # Parties.

    def look_up_verifier(self, order: LookUpVerifier) -> VerifierLookedUp:
        """Return the verifier by which others know a party of this node in this contract, or an empty one."""
        verifier = self.verifier_of(order.contract, order.party)
        return VerifierLookedUp(order.peer, order.request_id, order.party, verifier)

    def verifier_of(self, contract: ContractAddress, party: Party) -> str:
        """Return the key of a party of this node; empty when there is none for it."""
        hosted = self._contracts.hosted(contract)
        assert hosted is not None, "only a contract with its domain proves"
        try:
            return hosted.domain.verifier_of(self._secrets.of(party))
        except UnknownKey:
            return ""

    def keys_in(self, contract: ContractAddress) -> Mapping[Party, str]:
        """Return the keys of this node's own parties, which are looked up on access."""
        return _OwnKeys(self, contract)

    async def roster_of(self, hosted: Hosted) -> Roster | None:
        """Return the owners of a contract whose ledger has a roster. `Unavailable` when the chain does not answer."""
        return await self._rosters.of(hosted)

    # Transitions.

    def take(self, events: Iterable[Event], revealed: Mapping[Leaf, Revealed]) -> list[Event]:
        """Keep the contents of transitions until they are proved; give those already proved the proof's validity."""
        for leaf, each in revealed.items():
            _keep(self._revealed, leaf, each)
        return [self._with_kept_validity(event) for event in events]

    async def sign_transition(self, order: SignTransition) -> TransitionSigned | AssemblyFailed:
        """Return the signature of the intent's key, followed by the proof or the issuer's signature; or the failure."""
        try:
            proof = await self._proof_of(order)
        except Exception as error:
            is_for_now = isinstance(error, Unavailable | Behind)
            reason = str(error) if is_for_now else f"it cannot be proved: {told_of(error)}"
            return AssemblyFailed(order.request_id, order.intent, bounded(reason))
        return TransitionSigned(order.request_id, order.intent, proof)

    def verify_signature(self, order: VerifySignature) -> SignatureVerified:
        """Return whether it bears the signature of the intent's key, which only this node has."""
        is_ours = is_signed_by_intent(order.intent, order.leaf, order.valid_until_s, order.signature)
        return SignatureVerified(order.request_id, order.intent, is_ours)

    def ended(self, intent: IntentId) -> None:
        """Delete the stored proof: nothing of this intent will be proved again."""
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
        """Whether the ledger still accepts the roots that this proof is for, if there are any."""
        _, proof = signature_and_rest(kept.made.result()) if kept.made.done() else (b"", b"")
        roots, _ = roots_and_proof(proof)
        return roots == Roots() or await self._are_taken(order.contract, roots)

    async def _make(self, order: SignTransition, wanted: _Proof) -> None:
        """Make the proof and give it, or the error, to those that wait. A failure is not kept."""
        try:
            proof = await self._made(order)
        except BaseException as error:
            if self._proofs.get(order.leaf) is wanted:
                del self._proofs[order.leaf]
            if isinstance(error, asyncio.CancelledError):
                wanted.made.cancel()
                raise
            wanted.made.set_exception(error)
            wanted.made.exception()  # Marks it as retrieved, in case no caller waits.
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
        """Return a public call of a party of this node, with the issuer's signature if the contract needs it."""
        hosted = self._contracts.hosted(contract) if contract is not None else None
        if hosted is None or not hosted.domain.is_issuers(hosted.configuration, sender, call):
            return call
        return call + await self._issued(hosted, keccak(hosted.separator + call))

    async def _note(self, proof: StoredProof) -> None:
        """Store a proof before it is used; it is used even if the store does not take it."""
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
