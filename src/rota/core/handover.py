"""What a coordinator tells its successor, in one message (protocol §4.1).

Theory of operation. The successor has to know every flush point, because it waits for them, and what they lock. What
they make matters to it only if it stops waiting, and what is kept for prepared transitions only saves it work, as
endorsers see to that: so these are told as far as the message has room. A flush point that is not told, because
there are thousands, is not waited for: what stands in its way is skipped by the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rota.core.kept import KEPT_MAX
from rota.messages import HandedOver, Handover
from rota.types import KeptStates, RequestId
from rota.wire.sizes import fitting, handed_over_bytes, kept_bytes

POINTS_MAX = 4_096


def handover_of(
    request_id: RequestId, points: Iterable[HandedOver], kept: Iterable[KeptStates], bytes_max: int
) -> Handover:
    """The answer to a hand-over request: flush points in their order, the latest of what is kept."""
    some = tuple(points)[:POINTS_MAX]
    bare = fitting((replace(handed, states=()) for handed in some), handed_over_bytes, bytes_max)
    room = bytes_max - sum(handed_over_bytes(handed) for handed in bare)
    told: list[HandedOver] = []
    for handed, without_states in zip(some, bare, strict=False):
        extra_bytes = handed_over_bytes(handed) - handed_over_bytes(without_states)
        if extra_bytes <= room:
            room -= extra_bytes
            told.append(handed)
        else:
            told.append(without_states)
    latest = fitting(reversed(tuple(kept)[-KEPT_MAX:]), kept_bytes, room)
    return Handover(request_id, tuple(told), tuple(reversed(latest)))
