"""The message of a coordinator to its successor, and the parts that the successor believes (protocol §4.1).

Theory of operation. The successor has to know every flush point, because it waits for them, and their locks. Their
outputs matter to it only if it stops waiting: so contents are included as far as the message has room. A flush point
that is left out, because there are thousands, is not waited for: the ledger skips transitions that conflict with it.

A flush point is only a claim of the old coordinator until it is proved: its transition has the leaf that it claims, the
leaf is in a round that is still valid, and as many endorsers as the contract requires have signed that round. An
unproved one is ignored: it locks nothing, and no coordinator waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from rota.machine.effects import DispatchRound
from rota.model.consistency import consistent_for
from rota.model.digests import round_digest
from rota.model.frozen import dataclass
from rota.model.types import Contract, Digest, Leaf, NodeName, RequestId
from rota.sequencer.context import Context
from rota.sequencer.effects import Signed
from rota.wire.messages import EndorserSignature, HandedOver, HandedRound, Handover
from rota.wire.sizes import fitting, handed_over_bytes, handed_round_bytes

POINTS_MAX = 4_096
# More than a coordinator has under way (`dispatch_ahead_max`); each costs its receiver k verifications.
ROUNDS_MAX = 64


def handed_round(
    leaves: tuple[Leaf, ...], valid_until_s: int, signatures: Iterable[tuple[NodeName, bytes]]
) -> HandedRound:
    """Return an endorsed round of ours as a hand-over shows it."""
    return HandedRound(leaves, valid_until_s, tuple(EndorserSignature(*each) for each in signatures))


def dispatched_rounds(rounds: Iterable[DispatchRound]) -> tuple[HandedRound, ...]:
    """Return the rounds of these dispatches as a hand-over shows them."""
    return tuple(handed_round(each.leaves, each.valid_until_s, each.signatures) for each in rounds)


def handover_of(
    request_id: RequestId, points: Iterable[HandedOver], rounds: Mapping[Digest, HandedRound], bytes_max: int
) -> Handover:
    """Return the answer to a hand-over request: flush points in their order, each with its round."""
    known = tuple(handed for handed in points if handed.point.digest in rounds)
    digests = tuple(dict.fromkeys(handed.point.digest for handed in known))[:ROUNDS_MAX]
    told_rounds = {
        digest: rounds[digest] for digest in fitting(digests, lambda d: handed_round_bytes(rounds[d]), bytes_max)
    }
    room = bytes_max - sum(map(handed_round_bytes, told_rounds.values()))
    some = tuple(handed for handed in known if handed.point.digest in told_rounds)[:POINTS_MAX]
    bare = fitting((_bare(handed) for handed in some), handed_over_bytes, room)
    room -= sum(handed_over_bytes(handed) for handed in bare)
    told: list[HandedOver] = []
    for handed, without_contents in zip(some, bare, strict=False):
        extra_bytes = handed_over_bytes(handed) - handed_over_bytes(without_contents)
        if extra_bytes <= room:
            room -= extra_bytes
            told.append(handed)
        else:
            told.append(without_contents)
    return Handover(request_id, tuple(told), tuple(told_rounds.values()))


def _bare(handed: HandedOver) -> HandedOver:
    """Return it without the contents of its states, which its leaf does not need."""
    outputs = tuple(replace(state, content=None, unknown=b"") for state in handed.transition.outputs)
    return replace(handed, transition=replace(handed.transition, outputs=outputs))


def endorsers_among(contract: Contract, signatures: Iterable[EndorserSignature]) -> dict[NodeName, bytes]:
    """Return the signatures of endorsers among these, one of each and no more than have to sign."""
    found = dict(signatures)
    signers = [node for node in contract.endorsers if node in found][: contract.threshold]
    return {node: found[node] for node in signers}


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a hand-over that may be true; `signed` is to be verified, as many for a round as must sign one."""

    peer: NodeName
    request_id: RequestId
    points: tuple[HandedOver, ...]
    rounds: dict[Digest, HandedRound]
    signed: tuple[Signed, ...]

    def believed(self, are_valid: Iterable[bool]) -> Handover:
        """Return the hand-over reduced to the claims whose signatures are valid."""
        false = {signed.digest for signed, is_valid in zip(self.signed, are_valid, strict=True) if not is_valid}
        points = tuple(handed for handed in self.points if handed.point.digest not in false)
        rounds = tuple(each for digest, each in self.rounds.items() if digest not in false)
        return Handover(self.request_id, points, rounds)


def claims_of(context: Context, peer: NodeName, handover: Handover) -> Claims:
    """Return the claims of a hand-over that may be true, as far as that shows without keys."""
    rounds: dict[Digest, HandedRound] = {}
    signed: list[Signed] = []
    for each in handover.rounds[:ROUNDS_MAX]:
        if not each.leaves or not context.chain_time_s <= each.valid_until_s <= context.latest_valid_until_s(False):
            continue
        digest = round_digest(context.separator, each.leaves, each.valid_until_s)
        signers = endorsers_among(context.contract, each.signatures)
        if digest not in rounds and len(signers) == context.contract.threshold:
            rounds[digest] = each
            signed += [Signed(node, digest, signature) for node, signature in signers.items()]
    points = tuple(handed for handed in handover.points[:POINTS_MAX] if _is_in(context, handed, rounds))
    used = {handed.point.digest for handed in points}
    to_verify = tuple(each for each in signed if each.digest in used)
    return Claims(peer, handover.request_id, points, {digest: rounds[digest] for digest in used}, to_verify)


def _is_in(context: Context, handed: HandedOver, rounds: Mapping[Digest, HandedRound]) -> bool:
    point, made = handed.point, handed.transition
    found = rounds.get(point.digest)
    if found is None or made.leaf not in found.leaves or made.intent != point.intent:
        return False
    return consistent_for(context.separator, context.node, made) is not None
