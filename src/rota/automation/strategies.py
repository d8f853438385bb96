"""When a node attempts a task: the two strategies, as arithmetic.

`random` is CIP 64's: each member waits for a time drawn from `Uniform(0, max(n · duration, polling interval))`. The one
with the shortest wait performs the task, and the others notice. With n nodes, a window W, and τ the part of W
that passes from the start of an attempt until the others see its effect, E[duplicates] = nτ - τⁿ; the mean wait is
W / (n + 1).

`rank` gives each task an order of the nodes that all of them compute alike: by the SHA-256 of `{task}/{node}`. The
first one begins when the task is ready on the ledger, the second a slot later, the third and fourth together a slot
after that, then four, then eight: however many are down, a task waits for a logarithm of slots. Nodes that missed their
slots lately go to the back (`standing`). A node that learns of a task after its own slot waits for its next one: slots
recur in the same order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NewType

from rota.automation.draws import Draws
from rota.automation.settings import BACKOFF_DURATIONS_MAX, BACKOFF_JITTER, TriggerSettings

Member = NewType("Member", str)

ORDERS_KEPT: Final = 4_096


def window_ms(settings: TriggerSettings, member_count: int) -> int:
    """The longest random delay: `max(n · expected_task_duration, polling_interval)`."""
    return max(member_count * settings.expected_task_duration_ms, settings.polling_interval_ms)


def random_delay_ms(settings: TriggerSettings, member_count: int, draws: Draws) -> int:
    """The delay of `random` before an attempt."""
    return draws.below(window_ms(settings, member_count))


def backoff_ms(settings: TriggerSettings, retry: int, draws: Draws) -> int:
    """The delay before a retry, the first being 0: it doubles up to its bound, and is then shortened at random."""
    most_ms = BACKOFF_DURATIONS_MAX * settings.expected_task_duration_ms
    grown_ms = min(settings.expected_task_duration_ms << min(retry, 16), most_ms)
    return grown_ms - draws.below(int(grown_ms * BACKOFF_JITTER))


@lru_cache(maxsize=ORDERS_KEPT)
def order_of(task: str, members: tuple[Member, ...]) -> tuple[Member, ...]:
    """All members in the order of their turns for this task."""
    return tuple(sorted(members, key=lambda member: hashlib.sha256(f"{task}/{member}".encode()).digest()))


def group_of(place: int) -> int:
    """The slot of a place in the order: 0, 1, then twos, fours, eights."""
    return place.bit_length()


@dataclass(frozen=True, slots=True)
class Turn:
    """A node's turn for a task: the members before it, and the slots of all, from the ready time on."""

    order: tuple[Member, ...]
    group: int
    ready_ms: int
    slot_ms: int

    @property
    def ahead(self) -> tuple[Member, ...]:
        """The members whose slots come before ours."""
        return self.order[: _first_place(self.group)]

    def start_ms(self, now_ms: int) -> int:
        """The start of our slot, or now if we are in it; when it is over, the start of our next one."""
        first_ms = self.ready_ms + self.group * self.slot_ms
        if now_ms < first_ms + self.slot_ms:
            return max(now_ms, first_ms)
        round_ms = (group_of(len(self.order) - 1) + 1) * self.slot_ms
        into_ms = (now_ms - first_ms) % round_ms
        return now_ms if into_ms < self.slot_ms else now_ms - into_ms + round_ms


def turn_of(
    task: str, member: Member, members: tuple[Member, ...], back: Collection[Member], ready_ms: int, slot_ms: int
) -> Turn:
    """Our turn; the members in `back` come after all others, in the same order among themselves."""
    natural = order_of(task, members)
    if back:
        front = tuple(each for each in natural if each not in back)
        natural = front + tuple(each for each in natural if each in back)
    return Turn(natural, group_of(natural.index(member)), ready_ms, slot_ms)


def _first_place(group: int) -> int:
    return 0 if group == 0 else 1 << (group - 1)
