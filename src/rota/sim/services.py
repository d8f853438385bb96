"""Domain, signer and key store of a simulated node: they answer at once and truthfully."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from functools import lru_cache

from rota.chain.effects import SignDispatch
from rota.chain.events import DispatchSigned
from rota.machine.effects import Effect, LookUpVerifier
from rota.machine.events import VerifierLookedUp
from rota.machine.tables import Event
from rota.model.digests import approval_digest, domain_separator, refusal_digest
from rota.model.types import (
    Contract,
    ContractAddress,
    Digest,
    IntentId,
    Leaf,
    NodeName,
    Party,
    PartySignature,
    State,
    StateId,
)
from rota.node.events import ForContract
from rota.sequencer.attestation import attesters_at
from rota.sequencer.effects import (
    AssembleIntents,
    CheckRound,
    JudgeFailure,
    SignTransition,
    VerifyEndorsement,
    VerifyEndorsers,
    VerifyParties,
    VerifySignature,
)
from rota.sequencer.events import (
    EndorsementVerified,
    EndorsersVerified,
    FailureJudged,
    PartiesVerified,
    RoundChecked,
    SignatureVerified,
    TransitionSigned,
)
from rota.sim import domain
from rota.sim.contents import Contents
from rota.wire.messages import Refusal

Unspent = Mapping[StateId, State]

SIGNATURES_KEPT_MAX = 4_096


class Services:
    """The services of every node; an answer depends only on the question and the node's own disk."""

    def __init__(
        self, contracts: Mapping[ContractAddress, Contract], payloads: Mapping[IntentId, bytes], has_liars: bool = False
    ) -> None:
        self.contracts = contracts
        self.has_liars = has_liars
        self.payloads = payloads
        self.separators = {c.address: domain_separator(c.chain_id, c.address) for c in contracts.values()}

    def add(self, contract: Contract) -> None:
        """Add a contract that was deployed while the world ran."""
        self.separators[contract.address] = domain_separator(contract.chain_id, contract.address)

    def answer(self, node: NodeName, effect: Effect, unspent: Unspent, life: int, contents: Contents) -> list[Event]:
        """The events that answer an effect."""
        match effect:
            case AssembleIntents():
                separator = self.separators[effect.contract]
                chosen = self.contracts[effect.contract]
                known = domain.readable(unspent, contents.held) if self.has_liars else unspent
                results = domain.assemble(chosen, separator, effect, known, life, self.payloads, node)
                return [ForContract(effect.contract, result) for result in results]
            case SignTransition():
                some = (effect.party, *effect.cosigners)
                signature, *others = (sign_leaf(party, effect.leaf, effect.valid_until_s) for party in some)
                done = TransitionSigned(effect.request_id, effect.intent, signature, tuple(others))
                return [ForContract(effect.contract, done)]
            case JudgeFailure(contract, intent, leaf):
                is_worth_retrying = domain.is_worth_retrying(intent, self.payloads)
                return [ForContract(contract, FailureJudged(intent.id, leaf, is_worth_retrying))]
            case CheckRound():
                separator = self.separators[effect.contract]
                found = unsigned(effect) or domain.stolen(effect, unspent) or domain.check(effect, self.payloads, node)
                found = found or domain.unplanned(effect)
                judged = frozenset(refusal.leaf for refusal in found)
                hidden = domain.hidden(effect, self.contracts[effect.contract]) or unapproved(separator, effect)
                refusals = (*signed(separator, node, effect, found, judged), *hidden)
                unjudged = () if refusals else domain.failures(effect, self.payloads, node)
                missing = () if refusals or unjudged else contents.lacked_by(node, effect, unspent)
                is_wrong = bool(refusals or missing or unjudged)
                signature = b"" if is_wrong else sign(node, digest_to_sign(separator, effect))
                peer, asked, digest = effect.peer, effect.request_id, effect.digest
                checked = RoundChecked(peer, asked, signature, refusals, missing, unjudged, digest)
                return [ForContract(effect.contract, checked)]
            case VerifyEndorsers(contract, request_id, claimed, intent):
                are_valid = tuple(verify(each.endorser, each.digest, each.signature) for each in claimed)
                return [ForContract(contract, EndorsersVerified(request_id, are_valid, intent))]
            case VerifyEndorsement():
                is_valid = verify(effect.peer, effect.digest, effect.signature)
                verified = EndorsementVerified(effect.peer, effect.digest, effect.signature, is_valid)
                return [ForContract(effect.contract, verified)]
            case VerifyParties(contract, request_id):
                return [ForContract(contract, PartiesVerified(request_id, _falsely_signed(effect)))]
            case VerifySignature(contract, request_id, intent, party, leaf, valid_until_s, signature):
                is_ours = signature == sign_leaf(party, leaf, valid_until_s)
                return [ForContract(contract, SignatureVerified(request_id, intent, is_ours))]
            case SignDispatch(order, signer, nonce, fees, account):
                content = b"/".join((signer.encode(), str((nonce, fees)).encode(), order.digest))
                hashed = hashlib.sha256(content).digest()
                return [DispatchSigned(nonce, fees, content, hashed, order.digest, account)]
            case LookUpVerifier(contract, peer, request_id, party):
                verifier = "" if party.startswith("nobody") else f"key of {party}"
                return [ForContract(contract, VerifierLookedUp(peer, request_id, party, verifier))]
            case _:
                raise AssertionError(f"the world does not know {type(effect).__name__}")


def _falsely_signed(order: VerifyParties | CheckRound) -> tuple[Leaf, ...]:
    """The leaves that lack a signature of their `from` party or of a party that their plan adds."""
    pairs = zip(order.transitions, order.senders, strict=True)
    parties = [(each, PartySignature(sender, each.signature)) for each, sender in pairs]
    planned = zip(order.transitions, order.attesters, strict=False)
    parties += [(each, signer) for each, attesters in planned for signer in attesters.signers]
    false = (
        each.leaf
        for each, (party, signature) in parties
        if signature != sign_leaf(party, each.leaf, each.valid_until_s)
    )
    return tuple(dict.fromkeys(false))


def unsigned(order: CheckRound) -> tuple[Refusal, ...]:
    """Refusals of leaves without the signatures of their `from` party and of the parties that their plan adds."""
    false = _falsely_signed(order)
    return tuple(
        Refusal(transition.intent, "the signature is not that of its party", leaf=transition.leaf)
        for transition in order.transitions
        if transition.leaf in false
    )


def unapproved(separator: bytes, order: CheckRound) -> tuple[Refusal, ...]:
    """Refusals of a round that some endorser named by the plan has not approved; none for a request of approval."""
    if order.asks_approval or not order.attesters:
        return ()
    digest, approvals = approval_digest(separator, order.digest), dict(order.approvals)
    if all(verify(node, digest, approvals.get(node, b"")) for node in order.attesters[0].endorsers):
        return ()
    return tuple(Refusal(each.intent, "it is not approved", leaf=each.leaf) for each in order.transitions)


def digest_to_sign(separator: bytes, order: CheckRound) -> Digest:
    """The round's digest, or that of its approval."""
    return approval_digest(separator, order.digest) if order.asks_approval else order.digest


def signed(
    separator: bytes, node: NodeName, order: CheckRound, refusals: tuple[Refusal, ...], judged: Collection[Leaf]
) -> tuple[Refusal, ...]:
    """The refusals, with this endorser's signatures under those that are judgements of leaves."""
    signatures = {
        transition.leaf: sign(
            node, refusal_digest(separator, sender, transition, attesters_at(order.attesters, number))
        )
        for number, (transition, sender) in enumerate(zip(order.transitions, order.senders, strict=True))
        if transition.leaf in judged
    }
    return tuple(each._replace(signature=signatures.get(each.leaf, b"")) for each in refusals)


def sign_leaf(party: Party, leaf: Leaf, valid_until_s: int) -> bytes:
    """A party's signature over its leaf and the time until which the leaf may be committed."""
    return sign(party, leaf + valid_until_s.to_bytes(8, "big"))


@lru_cache(maxsize=SIGNATURES_KEPT_MAX)
def sign(signer: Party | NodeName, signed: Leaf | bytes) -> bytes:
    """The world's signature scheme: a hash, which no node of the world forges. Cached for verifiers."""
    return hashlib.sha256(signer.encode() + signed).digest()


def verify(signer: NodeName, signed: bytes, signature: bytes) -> bool:
    """Whether this is the signer's signature of these bytes."""
    return signature == sign(signer, signed)
