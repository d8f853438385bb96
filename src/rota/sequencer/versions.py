"""Conditions under which a sender may sign another version of an intent (protocol §4.3).

Every version that is signed and not expired may be committed, so each is recorded, and there are at most
`VERSIONS_MAX` of them (trust rule 1). Half of them may follow one another at once; the rest are spaced, so that a
coordinator that asks repeatedly leaves room for the next one.

A version of an intent that depends on others of its contract (`dependsOn`) may be signed before these are confirmed,
if it reads or spends a state of a version of each of them. A state is known by the leaf that made it, so the chain
commits the version only after these leaves, with any endorsers and any submitter. Any other version is not signed,
since a transition that the chain skips takes along only those that read its states. The sender tries once: it
delegates the dependent when what it depends on is assembled for the same coordinator. If the assembled version reads
nothing of that, the intent waits for the confirmation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rota.model.types import AwaitedLeaf, Dependency, IntentId, Leaf, Transition
from rota.sequencer.sent_intent import SentIntent

VERSIONS_MAX = 32


def must_wait_to_sign(transaction: SentIntent, final_time_s: int) -> bool:
    """Whether no coordinator can have the intent assembled now: too many versions, or one has to expire first."""
    if transaction.is_voiding or not (transaction.intent.is_external or len(transaction.versions) >= VERSIONS_MAX // 2):
        return False
    return _has_signed_too_often(transaction, final_time_s) or _must_expire_first(transaction)


def _has_signed_too_often(transaction: SentIntent, final_time_s: int) -> bool:
    live = [until_s for until_s in transaction.versions.values() if until_s >= final_time_s]
    if len(live) < VERSIONS_MAX // 2:
        return False
    config = transaction.context.config
    validity_s = config.prepared_validity_s if transaction.intent.is_external else config.validity_s
    last_signed_s = max(live) - validity_s
    is_early = transaction.context.chain_time_s < last_signed_s + validity_s // (VERSIONS_MAX // 2)
    return is_early or len(live) >= VERSIONS_MAX


def _must_expire_first(transaction: SentIntent) -> bool:
    """Whether another version would expire with the first, too soon for its committer."""
    bound_s = transaction.first_bound_s
    if bound_s is None:
        return False
    config = transaction.context.config
    least_s = min(config.validity_s, config.prepared_validity_s) // 2
    return bound_s - transaction.context.chain_time_s < least_s


def may_be_pipelined(transaction: SentIntent, is_under_way: Callable[[Dependency], bool]) -> bool:
    """Whether all open dependencies are under way in its contract, so that it may be built on them."""
    if transaction.awaits_confirmation or transaction.intent.is_external:
        return False
    return all(is_under_way(other) for other in transaction.unmet)


def reads_all_dependencies(
    transaction: SentIntent, transition: Transition, transactions: Mapping[IntentId, SentIntent]
) -> bool:
    """Whether the chain cannot commit this version before all dependencies of its intent (O3)."""
    leaves = {state.leaf for state in (*transition.inputs, *transition.reads)}
    return all(not leaves.isdisjoint(_leaves_of(other, transactions)) for other in transaction.unmet)


def _leaves_of(dependency: Dependency, transactions: Mapping[IntentId, SentIntent]) -> set[Leaf]:
    """Return the versions of a dependency that our party has signed, or is about to sign in the same slot."""
    other = None if isinstance(dependency, AwaitedLeaf) else transactions.get(dependency)
    if other is None:
        return set()
    leaves = set(other.versions)
    if other.transition is not None:
        leaves.add(other.transition.leaf)
    return leaves
