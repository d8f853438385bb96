"""A synthetic domain: the behaviour of the simulator's intents.

A payload is a word, with arguments behind a colon. `spend` replaces the one shared state of the contract, so that
every intent depends on the previous one; `spend:2` replaces another one of several, and `spend:1+2` two at once.
`look:1` reads a shared state and makes one of its own. `mint` makes a state for all members and depends on nothing.
`pay:B` spends a private coin of the sender, if it has one, and makes one for B and one for itself, which only they and
the endorsers may see. `fund` makes a state that only its sender spends; `take` spends one and makes the next, or ends
the intent if there is none. `draw:1` spends a shared state that no other word spends and makes the next; it makes the
first one if there is none, and cannot be assembled while all existing ones are locked. `seal:B+C` spends the state that
only such intents spend and makes the next: its plan adds B and C as endorsers and a witness of the sender's node as a
signer. Endorsers refuse a transition that spends another node's coin or fund. `revert` and `park` end or park the
intent at its assembly, `fail` makes the domain itself fail, and `refuse` is assembled but no endorser signs it. On
`break` the endorsers' own domains fail. `revert-on-chain` and `revert-on-chain-for-good` behave as `spend` here, and
fail on the ledger. An external intent with `prepare` spends too, and only one committer may bring it to the ledger. A
scenario may change the word of an intent in the world's payloads, which override the payload of the intent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import chain
from typing import NamedTuple

from rota.model.digests import NONCE_BYTES, core_of, leaf_of, page_of, state_commitment
from rota.model.types import (
    NO_ATTESTERS,
    Attesters,
    Contract,
    ContractAddress,
    Intent,
    IntentId,
    Leaf,
    NodeName,
    Party,
    PartySignature,
    Preparation,
    State,
    StateId,
    Transition,
    node_of,
)
from rota.sequencer.attestation import attesters_at
from rota.sequencer.effects import AssembleIntents, CheckRound
from rota.sequencer.events import AssemblyFailed, AssemblyFinished
from rota.sim.ledger import FAILS_FOR_GOOD
from rota.wire.messages import AssemblyOutcome, Refusal

SHARED = b"shared"
MINTED = b"minted"
SINGLE = b"single "
SEALED = b"sealed "
PREPARATION = Preparation(ContractAddress("0x" + "c0" * 20), b"if all legs".ljust(32, b"\0"))
UNCHANGED: Mapping[IntentId, bytes] = {}


class Draft(NamedTuple):
    """The inputs and reads of an intent, and the states that it makes: prefix, and the nodes that see it."""

    inputs: tuple[StateId, ...]
    reads: tuple[StateId, ...]
    outputs: tuple[tuple[bytes, tuple[NodeName, ...]], ...]


def assemble(
    contract: Contract,
    separator: bytes,
    order: AssembleIntents,
    unspent: Mapping[StateId, State],
    attempt: int,
    payloads: Mapping[IntentId, bytes] = UNCHANGED,
    node: NodeName | None = None,
) -> list[AssemblyFinished | AssemblyFailed]:
    """Assemble a slot's intents in order, each on the outputs of the previous ones.

    `unspent` are the states of the node's own index; the snapshot has the locked and the new ones. `payloads` overrides
    the payloads of some intents.
    """
    spent = set(order.snapshot.locks)
    available: dict[bytes, dict[StateId, State]] = {}
    locked: set[bytes] = set()
    for state in chain(unspent.values(), order.snapshot.states):
        # No intent spends minted states, and most states are minted.
        if state.content is None or state.content.startswith(MINTED):
            continue
        if state.id in spent:
            if state.content.startswith(SINGLE):
                locked.add(_purse_of(state))
            continue
        if node is None or node in state.distribution:
            available.setdefault(_purse_of(state), {})[state.id] = state
    results: list[AssemblyFinished | AssemblyFailed] = []
    for intent in order.intents:
        word = payloads.get(intent.id, intent.payload).decode()
        if word == "fail":
            results.append(AssemblyFailed(order.request_id, intent.id, "the domain failed"))
        elif word in ("revert", "park"):
            outcome = AssemblyOutcome.REVERTED if word == "revert" else AssemblyOutcome.PARKED
            reason = "not enough funds" if word == "revert" else "not before tomorrow"
            results.append(AssemblyFinished(order.request_id, intent.id, outcome, reason=reason))
        elif word == "take" and not available.get(fund_of(node_of(intent.sender))):
            reason = "insufficient funds"
            results.append(AssemblyFinished(order.request_id, intent.id, AssemblyOutcome.REVERTED, reason=reason))
        elif (single := _drawn_from(word)) in locked and not available.get(single):
            reason = "all states are in use"
            results.append(AssemblyFinished(order.request_id, intent.id, AssemblyOutcome.REVERTED, reason=reason))
        else:
            draft = _draft(contract, intent, word, available)
            transition = _transition(separator, intent, draft, order, attempt)
            for purse in available.values():
                for reference in transition.inputs:
                    purse.pop(reference, None)
            attesters = plan_of(transition, intent.sender)
            # External and planned transitions depend on others, so nothing is built on them.
            is_certain = not intent.is_external and not attesters.endorsers
            for state in transition.outputs if is_certain else ():
                available.setdefault(_purse_of(state), {})[state.id] = state
            kind = AssemblyOutcome.ASSEMBLED
            results.append(AssemblyFinished(order.request_id, intent.id, kind, transition, attesters=attesters))
    return results


def plan_of(transition: Transition, sender: Party) -> Attesters:
    """The attesters that the plan of a transition adds, derived from the states that it makes."""
    purses = [_purse_of(state) for state in transition.outputs if state.content is not None]
    sealed = next((purse for purse in purses if purse.startswith(SEALED)), None)
    if sealed is None:
        return NO_ATTESTERS
    names = sealed.removeprefix(SEALED).decode()
    endorsers = tuple(NodeName(name) for name in names.split("+") if name)
    return Attesters((PartySignature(Party(f"witness@{node_of(sender)}")),), endorsers)


def unplanned(order: CheckRound) -> tuple[Refusal, ...]:
    """Refusals of transitions that are shown without all attesters of their plan."""
    pairs = enumerate(zip(order.transitions, order.senders, strict=True))
    return tuple(
        Refusal(transition.intent, "its plan adds more", leaf=transition.leaf)
        for number, (transition, sender) in pairs
        if not _has_all(attesters_at(order.attesters, number), plan_of(transition, sender))
    )


def _has_all(shown: Attesters, wanted: Attesters) -> bool:
    parties = {signer.party for signer in shown.signers}
    return all(each.party in parties for each in wanted.signers) and set(wanted.endorsers) <= set(shown.endorsers)


def readable(unspent: Mapping[StateId, State], held: Collection[StateId]) -> dict[StateId, State]:
    """The states without shared ones whose contents the node lacks: no domain builds on states that it cannot read."""
    return {
        reference: state
        for reference, state in unspent.items()
        if reference in held or state.content is None or not state.content.startswith(SHARED)
    }


def check(order: CheckRound, payloads: Mapping[IntentId, bytes], node: NodeName | None = None) -> tuple[Refusal, ...]:
    """Refusals by word: every endorser refuses `refuse`, B and C alone refuse `refuse:B+C`.

    An empty transition, by which the sender voids an intent, is only refused if the word is `refuse-all`.
    """
    return tuple(
        Refusal(transition.intent, "against the rules", leaf=transition.leaf)
        for transition in order.transitions
        if _refuses(payloads.get(transition.intent, b"").decode(), node, transition.is_empty)
    )


def stolen(order: CheckRound, unspent: Mapping[StateId, State]) -> tuple[Refusal, ...]:
    """Refusals of transitions that spend coins or funds of another node than the sender's."""
    made = {state.id: state for each in (*order.makers, *order.transitions) for state in each.outputs}
    return tuple(
        Refusal(transition.intent, "a state of another is spent", leaf=transition.leaf)
        for transition, sender in zip(order.transitions, order.senders, strict=True)
        if any(_is_of_another(made.get(each) or unspent.get(each), node_of(sender)) for each in transition.inputs)
    )


def _is_of_another(state: State | None, node: NodeName) -> bool:
    if state is None or state.content is None:
        return False
    kind, is_owned, owner = _purse_of(state).partition(b" of ")
    return bool(is_owned) and kind in (b"coin", b"fund") and owner != node.encode()


def hidden(order: CheckRound, contract: Contract) -> tuple[Refusal, ...]:
    """Refusals of transitions with outputs hidden from endorsers; unsigned, as no leaf shows which node hid them."""
    return tuple(
        Refusal(transition.intent, "a state is hidden from endorsers", leaf=transition.leaf)
        for transition in order.transitions
        for state in transition.outputs
        if state.content is None or not all(endorser in state.distribution for endorser in contract.endorsers)
    )


def failures(order: CheckRound, payloads: Mapping[IntentId, bytes], node: NodeName | None = None) -> tuple[Leaf, ...]:
    """The leaves on which an endorser's domain fails: `break` at every endorser, `break:B+C` at B and C alone."""
    return tuple(
        transition.leaf
        for transition in order.transitions
        if _breaks(payloads.get(transition.intent, b"").decode(), node) and not transition.is_empty
    )


def _breaks(word: str, node: NodeName | None) -> bool:
    verb, _, names = word.partition(":")
    return verb == "break" and (not names or node in names.split("+"))


def _refuses(word: str, node: NodeName | None, is_empty: bool) -> bool:
    verb, _, names = word.partition(":")
    is_against = verb == "refuse-all" or (verb == "refuse" and not is_empty)
    return is_against and (not names or node in names.split("+"))


def _draft(contract: Contract, intent: Intent, word: str, available: dict[bytes, dict[StateId, State]]) -> Draft:
    verb, _, arguments = word.partition(":")
    members = tuple(dict.fromkeys((*contract.committee, *contract.endorsers, node_of(intent.sender))))
    if verb == "mint":
        return Draft((), (), ((MINTED, members),))
    if verb in ("fund", "take"):
        fund = fund_of(node_of(intent.sender))
        return Draft(_latest(available, fund) if verb == "take" else (), (), ((fund, members),))
    if verb == "look":
        seen = _latest(available, b"shared " + arguments.encode())
        return Draft((), seen, ((MINTED, members),))
    if verb == "seal":
        sealed = SEALED + arguments.encode()
        return Draft(_latest(available, sealed), (), ((sealed, members),))
    if verb == "draw":
        single = _drawn_from(word)
        return Draft(_latest(available, single), (), ((single, members),))
    if verb == "pay":
        payer, payee = node_of(intent.sender), NodeName(arguments)
        seen_by = tuple(dict.fromkeys((*contract.endorsers, payer, payee)))
        coins = _latest(available, b"coin of " + payer.encode())
        return Draft(coins, (), tuple((b"coin of " + owner.encode(), seen_by) for owner in (payee, payer)))
    purses = (
        [b"shared " + name.encode() for name in arguments.split("+")] if verb == "spend" and arguments else [SHARED]
    )
    inputs = tuple(reference for purse in purses for reference in _latest(available, purse))
    return Draft(inputs, (), tuple((purse, members) for purse in purses))


def fund_of(node: NodeName) -> bytes:
    """The prefix of states that only a node's own users take."""
    return b"fund of " + node.encode()


def _drawn_from(word: str) -> bytes:
    """The prefix of states that this word draws from; empty for other words."""
    verb, _, name = word.partition(":")
    return SINGLE + name.encode() if verb == "draw" else b""


def _latest(available: dict[bytes, dict[StateId, State]], purse: bytes) -> tuple[StateId, ...]:
    return tuple(available.get(purse, ()))[-1:]


def _purse_of(state: State) -> bytes:
    """The kind of a state, which is the prefix of its content."""
    assert state.content is not None, "only who may see a state looks at it"
    return state.content.partition(b"/")[0]


def _transition(separator: bytes, intent: Intent, draft: Draft, order: AssembleIntents, attempt: int) -> Transition:
    made = tuple(
        b"/".join((purse, intent.id, str(order.request_id).encode(), str(attempt).encode(), str(number).encode()))
        for number, (purse, _) in enumerate(draft.outputs)
    )
    commitments = tuple(state_commitment(content) for content in made)
    preparation = PREPARATION if intent.payload == b"prepare" and intent.is_external else None
    core = core_of(separator, intent.id, inputs=draft.inputs, reads=draft.reads, outputs=commitments)
    leaf: Leaf = leaf_of(core, preparation)
    outputs = tuple(
        State(StateId(leaf, number), commitment, seen_by, content)
        for number, (commitment, (_, seen_by), content) in enumerate(zip(commitments, draft.outputs, made, strict=True))
    )
    valid_until_s = order.valid_until_s if preparation is None else order.prepared_valid_until_s
    return Transition(
        intent.id, leaf, draft.inputs, draft.reads, outputs, valid_until_s=valid_until_s, preparation=preparation
    )


def nonce_of(name: str) -> bytes:
    """The nonce of an intent, which reads as its name."""
    return name.encode().ljust(NONCE_BYTES, b"\x00")


def intent_id(name: str) -> IntentId:
    """An id that reads as a name; no party has drawn it."""
    return IntentId(nonce_of(name))


def drawn_id(name: str, party: Party, contract: ContractAddress) -> IntentId:
    """The id that the party draws for the intent with this name."""
    return IntentId(page_of(party, contract, nonce_of(name)) + b"\x00")


def is_worth_retrying(intent: Intent, payloads: Mapping[IntentId, bytes]) -> bool:
    """Whether a failure on the ledger is worth a retry, by the user's word; the sender's domain decides."""
    return payloads.get(intent.id) != FAILS_FOR_GOOD
