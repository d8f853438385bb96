"""A synthetic domain: what the simulator's intents do.

A payload is a word. `spend` replaces the one shared state of the contract, so that every intent stands on
the last one; `mint` makes a state and stands on nothing; `revert` and `park` end or park the intent at its
assembly, `fail` makes the domain itself fail, and `refuse` is assembled but no endorser signs it. What is
called `revert-on-chain` or `revert-on-chain-for-good` is as `spend` here, and fails on the ledger. An external
intent that says `prepare` spends too, and only one committer may bring it to the ledger. A scenario may change
its mind about an intent: then the world's word counts, not the payload.
"""

from __future__ import annotations

from collections.abc import Mapping

from rota.core.effects import AssembleIntents, CheckRound
from rota.core.events import AssemblyFailed, AssemblyFinished
from rota.digests import core_of, leaf_of, state_commitment
from rota.messages import AssemblyOutcome, Refusal
from rota.types import (
    Contract,
    ContractAddress,
    Intent,
    IntentId,
    Leaf,
    NodeName,
    Preparation,
    State,
    StateId,
    SubmitMode,
    Transition,
)

SHARED = b"shared"
PREPARATION = Preparation(ContractAddress("0x" + "c0" * 20), b"if all legs".ljust(32, b"\0"))
UNCHANGED: Mapping[IntentId, bytes] = {}


def assemble(
    contract: Contract,
    separator: bytes,
    order: AssembleIntents,
    unspent: dict[StateId, State],
    attempt: int,
    payloads: Mapping[IntentId, bytes] = UNCHANGED,
) -> list[AssemblyFinished | AssemblyFailed]:
    """Assemble a slot's intents one after the other, each on what the ones before it have made.

    `unspent` is what the node's own index says; the snapshot tells what is locked and what is new.
    `payloads` holds what the world has to say of some intents.
    """
    spent = set(order.snapshot.locks)
    candidates = (*unspent.values(), *order.snapshot.states)
    available = {state.id: state for state in candidates if state.id not in spent}
    results: list[AssemblyFinished | AssemblyFailed] = []
    for intent in order.intents:
        word = payloads.get(intent.id, intent.payload).decode()
        if word == "fail":
            results.append(AssemblyFailed(order.request_id, intent.id, "the domain failed"))
        elif word in ("revert", "park"):
            outcome = AssemblyOutcome.REVERTED if word == "revert" else AssemblyOutcome.PARKED
            reason = "not enough funds" if word == "revert" else "not before tomorrow"
            results.append(AssemblyFinished(order.request_id, intent.id, outcome, reason=reason))
        else:
            transition = _transition(contract, separator, intent, word, order, available, attempt)
            for reference in transition.inputs:
                del available[reference]
            if intent.submit_mode is not SubmitMode.EXTERNAL:
                # Whether an external one ever comes is for its user to say: nothing is built on it.
                available.update({state.id: state for state in transition.outputs})
            finished = AssemblyFinished(order.request_id, intent.id, AssemblyOutcome.ASSEMBLED, transition)
            results.append(finished)
    return results


def check(order: CheckRound, payloads: Mapping[IntentId, bytes], node: NodeName | None = None) -> tuple[Refusal, ...]:
    """An endorser's judgement: `refuse` is refused by everybody, `refuse:B+C` by B and C alone.

    An empty transition, by which the sender voids an intent, is against no rule, unless the word is `refuse-all`.
    """
    return tuple(
        Refusal(transition.intent, "against the rules")
        for transition in order.transitions
        if _refuses(payloads.get(transition.intent, b"").decode(), node, transition.is_empty)
    )


def _refuses(word: str, node: NodeName | None, is_empty: bool) -> bool:
    verb, _, names = word.partition(":")
    is_against = verb == "refuse-all" or (verb == "refuse" and not is_empty)
    return is_against and (not names or node in names.split("+"))


def _transition(
    contract: Contract,
    separator: bytes,
    intent: Intent,
    word: str,
    order: AssembleIntents,
    available: dict[StateId, State],
    attempt: int,
) -> Transition:
    members: tuple[NodeName, ...] = tuple(dict.fromkeys((*contract.committee, *contract.endorsers)))
    is_shared = word != "mint"
    shared = [state for state in available.values() if state.content is not None and state.content.startswith(SHARED)]
    inputs = tuple(state.id for state in shared[-1:]) if is_shared else ()
    prefix = SHARED if is_shared else b"minted"
    content = b"/".join((prefix, intent.id, str(order.request_id).encode(), str(attempt).encode()))
    commitment = state_commitment(content)
    preparation = PREPARATION if word == "prepare" and intent.submit_mode is SubmitMode.EXTERNAL else None
    leaf: Leaf = leaf_of(core_of(separator, intent.id, inputs=inputs, outputs=(commitment,)), preparation)
    outputs = (State(StateId(leaf, 0), commitment, members, content),)
    valid_until_s = order.valid_until_s if preparation is None else order.prepared_valid_until_s
    return Transition(intent.id, leaf, inputs, (), outputs, valid_until_s=valid_until_s, preparation=preparation)


def intent_id(name: str) -> IntentId:
    """An id that reads as its name."""
    return IntentId(name.encode().ljust(16, b"\x00"))
