"""Commands in a seeded world: the product's desk on models of a disk and a sequencer, with a crash at any moment.

Theory of operation. Effects of the desk are executed a little later, and their results are returned a little later
again. Writes reach the disk in the order in which the desk issued them. A step of the desk, an effect, and a result are
each a *moment*; moments are counted, and the node can be made to crash just before any of them. A crash loses the desk,
all results not returned, and a suffix of the writes under way. The disk survives, and so do the transactions that the
sequencer has accepted: the sequencer's own durability is the subject of another simulation.

So the crash points are those of the code: run once and count, then crash at each number in turn. With a seed, writes
fail too, some of them after they took effect, commits are slow, the clock steps back, the sequencer is sometimes busy,
and clients time out and submit the same change again. Every answer to a client is definite. A chain that loses final
blocks undoes transactions whose completions were published; some return, and the others never do.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import partial
from random import Random
from typing import Final

from rota.commands import errors
from rota.commands.acceptance import Acceptance
from rota.commands.changes import change_of
from rota.commands.desk import Desk, DeskLimits
from rota.commands.effects import (
    Acknowledged,
    Answer,
    AnswerCall,
    AwaitEnd,
    Closing,
    DeskEffect,
    FindTransaction,
    HandOver,
    InFlight,
    LookUpAcceptance,
    LookUpPruning,
    Pause,
    Pruned,
    PublishStream,
    RemoveInFlight,
    WriteCompletions,
    WriteInFlight,
    WritePruning,
)
from rota.commands.events import (
    AcceptanceLookedUp,
    AcceptanceNotLookedUp,
    CommandSubmitted,
    CompletionsNotWritten,
    CompletionsWritten,
    Contradicted,
    DeskEvent,
    InFlightNotRemoved,
    InFlightNotWritten,
    InFlightRemoved,
    InFlightWritten,
    OutcomesContradicted,
    PruningLookedUp,
    PruningNotWritten,
    PruningRequested,
    PruningWritten,
    RetryDue,
    TransactionEnded,
    TransactionHandedOver,
    TransactionNotFound,
    TransactionNotTaken,
    TransactionRefused,
)
from rota.commands.outcomes import failure_of
from rota.commands.periods import Stream
from rota.model.digests import keccak
from rota.model.frozen import dataclass
from rota.model.types import IntentId
from rota.schema.commands import (
    MICROSECONDS_PER_MS,
    ChangeId,
    Command,
    Completion,
    DeduplicationDuration,
    DeduplicationOffset,
    Failure,
)

EPOCH_MS: Final = 1_700_000_000_000
DELAY_MS_MAX: Final = 20
ENDS_AFTER_MS_MAX: Final = 200
RESTART_MS: Final = 50
SLOW_MS: Final = 500
LOST_MS: Final = 300
LOOK_MS: Final = 100
MOMENTS_MAX: Final = 1_000_000
INTENT_BYTES: Final = 16

# The behaviour of a transaction of the model, by its bytes.
GOES_WELL: Final = b"goes well"
REVERTS: Final = b"reverts"
IS_REFUSED: Final = b"is refused"


@dataclass(slots=True)
class CommandDisk:
    """The durable state of a node: the tables of the store as plain values."""

    in_flight: dict[ChangeId, InFlight] = field(default_factory=dict)
    acceptances: dict[ChangeId, Acceptance] = field(default_factory=dict)
    completions: dict[int, Completion] = field(default_factory=dict)
    stream: Stream = Stream()
    # The completions that put their submissions in flight again.
    reopened: set[int] = field(default_factory=set)

    def write(self, effect: DeskEffect) -> None:
        """Apply a write completely; applying it again changes nothing."""
        match effect:
            case WriteInFlight(submission):
                self.in_flight.setdefault(submission.change, submission)
            case RemoveInFlight(submission):
                if submission.change in self.in_flight and self.in_flight[submission.change].key == submission.key:
                    del self.in_flight[submission.change]
            case WriteCompletions(closings):
                for closing in closings:
                    self._complete(closing)
            case WritePruning(offset, published_at_us):
                self.completions = {at: each for at, each in self.completions.items() if at > offset}
                self.acceptances = {of: each for of, each in self.acceptances.items() if each.offset >= offset}
                self.stream = replace(self.stream, pruned=offset, pruned_at_us=published_at_us)
            case _:
                raise AssertionError(f"{type(effect).__name__} is no write")

    def _complete(self, closing: Closing) -> None:
        submission, completion = closing.submission, closing.completion
        if completion.offset <= self.stream.end:
            return
        self.completions[completion.offset] = completion
        self.stream = replace(self.stream, end=completion.offset, published_at_us=completion.published_at_us)
        accepted = self.acceptances.get(submission.change)
        if completion.corrects is not None and accepted is not None and accepted.offset == completion.corrects:
            del self.acceptances[submission.change]
        if closing.reopens:
            self.reopened.add(completion.offset)
            self.in_flight.setdefault(submission.change, submission)
            return
        if completion.failure is None:
            command = submission.command
            self.acceptances[submission.change] = Acceptance(
                completion.offset, completion.published_at_us, command.submission_id, completion.transaction
            )
        held = self.in_flight.get(submission.change)
        if held is not None and held.key == submission.key:
            del self.in_flight[submission.change]


@dataclass(frozen=True, slots=True)
class ModelTransaction:
    """A transaction that the sequencer has accepted under a key."""

    id: IntentId
    ends_at_ms: int
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class Submitted:
    """A client's submission, and its time."""

    at_ms: int
    command: Command
    transaction: bytes = GOES_WELL
    wants_outcome: bool = False


@dataclass(frozen=True, slots=True)
class Pruning:
    """An operator's request to prune, and its time: prunes all but the latest `but` completions."""

    at_ms: int
    but: int


@dataclass(frozen=True, slots=True)
class LostBlocks:
    """The chain loses final blocks at this time; their transactions return a while later, or never."""

    at_ms: int
    returns: bool


@dataclass(frozen=True, slots=True)
class Faults:
    """The frequency of each fault, per thousand."""

    write_fails: int = 0
    write_is_unknown: int = 0
    read_fails: int = 0
    is_not_taken: int = 0
    crash: int = 0
    write_is_slow: int = 0
    client_hangs_up: int = 0
    clock_steps_back_ms_max: int = 0


class CommandWorld:
    """One node's desk, its disk, its sequencer and its clients. `crash_at` names the moment before which it crashes."""

    def __init__(
        self,
        script: Sequence[Submitted | Pruning | LostBlocks],
        seed: int = 0,
        faults: Faults | None = None,
        crash_at: int | None = None,
    ) -> None:
        self.random: Final = Random(seed)
        self.faults: Final = faults or Faults()
        self.crash_at: Final = crash_at
        self.disk: Final = CommandDisk()
        self.transactions: Final[dict[str, ModelTransaction]] = {}
        self.answers: Final[list[tuple[Submitted, Answer]]] = []
        self.published: Final[dict[int, Completion]] = {}
        self.maximum_us: Final = 1_000_000
        self.now_ms = EPOCH_MS
        self.moments = 0
        self.prunings = 0
        self.crashes = 0
        self.hung_up = 0
        self.is_up = True
        self._skew_ms = 0
        self._lost_until_ms = 0
        self._life = 1
        self._order = 0
        self._due: Final[list[tuple[int, int, Callable[[], None]]]] = []
        self._writes: Final[deque[tuple[DeskEffect, int]]] = deque()
        self._calls: Final[dict[int, Submitted]] = {}
        self.desk = Desk(Stream(), (), self.maximum_us, DeskLimits(retry_ms=5, batch_max=3))
        for each in script:
            match each:
                case Submitted():
                    self._at(each.at_ms, partial(self._submit, each))
                case Pruning():
                    self._at(each.at_ms, partial(self._prune, each))
                case LostBlocks():
                    self._at(each.at_ms, partial(self._lose, each))

    def run(self) -> None:
        """Run until no event is left."""
        while self._due:
            assert self.moments < MOMENTS_MAX, "the world does not come to rest"
            at_ms, _, happens = heapq.heappop(self._due)
            self.now_ms = max(self.now_ms, at_ms)
            happens()

    # The node.

    def _submit(self, submitted: Submitted) -> None:
        """Submit to the node; a client retries while it is down. An answer is lost if the node crashes first."""
        if not self.is_up:
            self._after(RESTART_MS, lambda: self._submit(submitted))
            return
        self._order += 1
        self._calls[self._order] = submitted
        key = f"command {self._order}"
        event = CommandSubmitted(
            self._order, submitted.command, key, submitted.transaction, wants_outcome=submitted.wants_outcome
        )
        call = self._order
        if self._happens(self.faults.client_hangs_up):
            self._after(self._delay(), lambda: self._hang_up(call))
        self._step(event)

    def _hang_up(self, call: int) -> None:
        """The client of an unanswered call stops waiting, and submits the same change again."""
        submitted = self._calls.pop(call, None)
        if submitted is not None:
            self.hung_up += 1
            command = replace(submitted.command, submission_id=f"{submitted.command.submission_id} again")
            self._submit(replace(submitted, command=command))

    def _prune(self, pruning: Pruning) -> None:
        if self.is_up:
            self._order += 1
            self._step(PruningRequested(self._order, max(self.desk.stream.end - pruning.but, 0)))

    def _lose(self, lost: LostBlocks) -> None:
        """Open confirmed transactions again, except pruned ones, which are older than any block that a chain loses."""
        pruned = {each.transaction for at, each in self.published.items() if at <= self.desk.stream.pruned}
        for key, each in self.transactions.items():
            if each.failure is None and each.ends_at_ms <= self.now_ms and each.id not in pruned:
                failure = None if lost.returns else errors.lost()
                self.transactions[key] = replace(each, ends_at_ms=self.now_ms + LOST_MS, failure=failure)
        self._lost_until_ms = self.now_ms + LOST_MS + SLOW_MS
        self._look_for_contradicted()

    def _look_for_contradicted(self) -> None:
        """Report contradicted successes repeatedly, as the node does, until none is left and none is being written."""
        if not self.is_up:
            return
        found = self._contradicted()
        if found:
            self._step(OutcomesContradicted(found))
        if found or self.now_ms <= self._lost_until_ms:
            life = self._life
            self._after(LOOK_MS, lambda: self._in_life(life, self._look_for_contradicted))

    def _contradicted(self) -> tuple[Contradicted, ...]:
        settled = {each.corrects for each in self.disk.completions.values()} | self.disk.reopened
        keys = {each.id: key for key, each in self.transactions.items()}
        found = []
        for completion in self.disk.completions.values():
            key = keys.get(completion.transaction) if completion.transaction is not None else None
            if key is None or completion.offset in settled:
                continue
            transaction = self.transactions[key]
            is_confirmed = transaction.ends_at_ms <= self.now_ms and transaction.failure is None
            if is_confirmed != (completion.failure is None):
                command = Command(
                    completion.application_id, completion.command_id, completion.parties, completion.submission_id
                )
                submission = InFlight(
                    change_of(command), key, command, completion.period, completion.published_at_us, b""
                )
                found.append(Contradicted(submission, completion))
        return tuple(found)

    def _step(self, event: DeskEvent) -> None:
        if self._crashes_now():
            return
        if self.faults.clock_steps_back_ms_max and self._happens(20):
            self._skew_ms = -self.random.randrange(self.faults.clock_steps_back_ms_max)
        self._order_effects(self.desk.step((self.now_ms + self._skew_ms) * MICROSECONDS_PER_MS, event))

    def _order_effects(self, effects: Sequence[DeskEffect]) -> None:
        """Execute effects in order, until the node crashes."""
        for effect in effects:
            if self.is_up:
                self._order_effect(effect)

    def _order_effect(self, effect: DeskEffect) -> None:
        life = self._life
        match effect:
            case AnswerCall(call, answer):
                self._carry_out(lambda: self._answer(call, answer))
            case PublishStream(stream):
                self._publish(stream)
            case Pause(pause_ms, change):
                self._after(pause_ms, lambda: self._tell(life, RetryDue(change)))
            case WriteInFlight() | RemoveInFlight() | WriteCompletions() | WritePruning():
                self._writes.append((effect, life))
                slow_ms = SLOW_MS if self._happens(self.faults.write_is_slow) else 0
                self._after(slow_ms + self._delay(), lambda: self._write(life))
            case _:
                self._after(
                    self._delay(), lambda: self._in_life(life, lambda: self._carry_out(lambda: self._do(effect)))
                )

    def _do(self, effect: DeskEffect) -> None:
        """Execute a query of the store, or a request to the sequencer."""
        life = self._life
        match effect:
            case LookUpAcceptance(change):
                if self._happens(self.faults.read_fails):
                    self._tell_soon(life, AcceptanceNotLookedUp(change, "the store is away"))
                else:
                    self._tell_soon(life, AcceptanceLookedUp(change, self.disk.acceptances.get(change)))
            case FindTransaction(submission):
                found = self.transactions.get(submission.key)
                event: DeskEvent = TransactionNotFound(submission.change)
                if found is not None:
                    event = TransactionHandedOver(submission.change, found.id)
                self._tell_soon(life, event)
            case HandOver(submission):
                self._tell_soon(life, self._hand_over(submission))
            case AwaitEnd(change, transaction):
                self._tell_end(life, change, transaction)
            case LookUpPruning(offset, horizon_us):
                older = [at for at, each in self.disk.completions.items() if each.published_at_us < horizon_us]
                at_us = self.disk.completions[offset].published_at_us
                self._tell_soon(life, PruningLookedUp(at_us, max(older, default=self.disk.stream.pruned)))
            case _:
                raise AssertionError(f"the world does not know {type(effect).__name__}")

    def _tell_end(self, life: int, change: ChangeId, transaction: IntentId) -> None:
        """Report the end of a transaction; a chain that lost blocks may have postponed it."""
        found = next(each for each in self.transactions.values() if each.id == transaction)
        if found.ends_at_ms > self.now_ms:
            self._at(found.ends_at_ms, lambda: self._in_life(life, lambda: self._tell_end(life, change, transaction)))
        else:
            self._tell_soon(life, TransactionEnded(change, found.failure))

    def _hand_over(self, submission: InFlight) -> DeskEvent:
        existing = self.transactions.get(submission.key)
        if existing is not None:
            return TransactionHandedOver(submission.change, existing.id)
        if submission.transaction == IS_REFUSED:
            return TransactionRefused(submission.change, errors.refused("data", "must be something else"))
        if self._happens(self.faults.is_not_taken):
            return TransactionNotTaken(submission.change, errors.unavailable("the sequencer is busy"))
        failure = failure_of("the domain says no", "") if submission.transaction == REVERTS else None
        accepted = ModelTransaction(
            IntentId(keccak(submission.key.encode())[:INTENT_BYTES]),
            self.now_ms + self.random.randrange(ENDS_AFTER_MS_MAX),
            failure,
        )
        self.transactions[submission.key] = accepted
        return TransactionHandedOver(submission.change, accepted.id)

    def _write(self, life: int) -> None:
        """Execute the oldest pending write."""
        if not self._writes or self._writes[0][1] != life:
            return
        if self._crashes_now():
            return
        effect, _ = self._writes.popleft()
        fails = self._happens(self.faults.write_fails)
        is_unknown = self._happens(self.faults.write_is_unknown)
        if not fails:
            self.disk.write(effect)
        self._tell_soon(life, _outcome_of(effect, is_well=not fails and not is_unknown))

    def _answer(self, call: int, answer: Answer) -> None:
        self.prunings += isinstance(answer, Pruned) and answer.offset > 0
        submitted = self._calls.pop(call, None)
        if submitted is not None:
            self.answers.append((submitted, answer))

    def _publish(self, stream: Stream) -> None:
        """Publish completions that are on the disk; a published one never changes."""
        for offset in range(len(self.published) + 1, stream.end + 1):
            self.published[offset] = self.disk.completions[offset]

    # Moments.

    def _carry_out(self, work: Callable[[], None]) -> None:
        if not self._crashes_now():
            work()

    def _tell_soon(self, life: int, event: DeskEvent) -> None:
        self._after(self._delay(), lambda: self._tell(life, event))

    def _tell(self, life: int, event: DeskEvent) -> None:
        self._in_life(life, lambda: self._step(event))

    def _in_life(self, life: int, work: Callable[[], None]) -> None:
        if life == self._life and self.is_up:
            work()

    def _crashes_now(self) -> bool:
        if not self.is_up:
            return True
        self.moments += 1
        if self.moments != self.crash_at and not self._happens(self.faults.crash):
            return False
        self.crashes += 1
        self.is_up = False
        # A crash keeps a random prefix of the pending writes.
        for _ in range(self.random.randrange(len(self._writes) + 1)):
            self.disk.write(self._writes.popleft()[0])
        self._writes.clear()
        self._calls.clear()
        self._after(RESTART_MS, self._restart)
        return True

    def _restart(self) -> None:
        self._life += 1
        self.is_up = True
        stored = tuple(self.disk.in_flight.values())
        self.desk = Desk(self.disk.stream, stored, self.maximum_us, self.desk.limits)
        self._publish(self.disk.stream)
        self._order_effects(self.desk.begin())
        self._look_for_contradicted()

    # Time and chance.

    def _at(self, at_ms: int, happens: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._due, (at_ms, self._order, happens))

    def _after(self, pause_ms: int, happens: Callable[[], None]) -> None:
        self._at(self.now_ms + pause_ms, happens)

    def _delay(self) -> int:
        return self.random.randrange(1, DELAY_MS_MAX)

    def _happens(self, of_a_thousand: int) -> bool:
        return of_a_thousand > 0 and self.random.randrange(1_000) < of_a_thousand


def _outcome_of(effect: DeskEffect, is_well: bool) -> DeskEvent:
    match effect:
        case WriteInFlight(submission):
            change = submission.change
            return InFlightWritten(change) if is_well else InFlightNotWritten(change, "the store is away")
        case RemoveInFlight(submission):
            return InFlightRemoved(submission.change) if is_well else InFlightNotRemoved(submission.change)
        case WriteCompletions():
            return CompletionsWritten() if is_well else CompletionsNotWritten()
        case _:
            return PruningWritten() if is_well else PruningNotWritten()


def flaws_of(world: CommandWorld) -> list[str]:
    """The flaws of a world that has come to rest; none if every command took effect exactly once."""
    return [*_flaws_of_stream(world), *_flaws_of_acceptances(world), *_flaws_of_answers(world)]


def _flaws_of_stream(world: CommandWorld) -> list[str]:
    flaws = []
    if world.disk.in_flight or world.desk.entries:
        flaws.append(f"{len(world.disk.in_flight)} stay in flight, {len(world.desk.entries)} in memory")
    if list(world.published) != list(range(1, world.disk.stream.end + 1)):
        flaws.append("subscribers see a gap")
    times = [each.published_at_us for each in world.published.values()]
    if times != sorted(times):
        flaws.append("times of publication step back")
    for offset, completion in world.disk.completions.items():
        if world.published.get(offset) != completion:
            flaws.append(f"completion {offset} is not the one that was published")
    return flaws


def _flaws_of_acceptances(world: CommandWorld) -> list[str]:
    """A change is accepted at most once per period, and exactly the confirmed transactions are accepted."""
    flaws = []
    accepted: dict[ChangeId, list[Completion]] = {}
    corrected = {each.corrects for each in world.published.values()}
    first: dict[str, Completion] = {}
    for each in world.published.values():
        first.setdefault(each.submission_id, each)
    # A submission that was withdrawn and confirmed again counts from its first publication.
    holds = [
        first[each.submission_id]
        for each in world.published.values()
        if each.failure is None and each.offset not in corrected
    ]
    for completion in sorted(holds, key=lambda each: each.offset):
        command = Command(completion.application_id, completion.command_id, completion.parties, "")
        earlier = accepted.setdefault(change_of(command), [])
        flaws += [f"{completion} was accepted although {each} was" for each in earlier if _covers(completion, each)]
        earlier.append(completion)
    confirmed = sorted(each.id for each in world.transactions.values() if each.failure is None)
    told = sorted(each.transaction or b"" for all_of in accepted.values() for each in all_of)
    if confirmed != told:
        flaws.append(f"{len(confirmed)} transactions were confirmed, and {len(told)} completions say so")
    latest = {each.submission_id: each.transaction for each in world.published.values()}
    ended = [transaction for transaction in latest.values() if transaction is not None]
    if sorted(ended) != sorted(each.id for each in world.transactions.values()):
        flaws.append("a transaction has no completion, or two")
    return flaws


def _covers(completion: Completion, earlier: Completion) -> bool:
    """Whether an earlier acceptance lies in the period, even if the submission was judged late in it."""
    match completion.period:
        case DeduplicationOffset(offset):
            return earlier.offset >= offset
        case DeduplicationDuration(duration_us):
            return earlier.published_at_us >= completion.published_at_us - duration_us


def _is_withdrawal(completion: Completion) -> bool:
    return completion.failure is not None and completion.failure.error_id == errors.FINALITY_BROKEN


def _are_in_turn(completions: Sequence[Completion]) -> bool:
    """A submission has one outcome; each withdrawal of a success is followed by another outcome."""
    outcomes, withdrawals = completions[::2], completions[1::2]
    return len(outcomes) == len(withdrawals) + 1 and all(
        _is_withdrawal(withdrawal) and withdrawal.corrects == outcome.offset and outcome.failure is None
        for outcome, withdrawal in zip(outcomes, withdrawals, strict=False)
    )


def _flaws_of_answers(world: CommandWorld) -> list[str]:
    flaws = []
    completions: dict[str, list[Completion]] = {}
    for completion in world.published.values():
        completions.setdefault(completion.submission_id, []).append(completion)
    for submission_id, several in completions.items():
        if not _are_in_turn(several):
            flaws.append(f"submission {submission_id} has {len(several)} completions")
    for submitted, answer in world.answers:
        own = completions.get(submitted.command.submission_id, [])
        match answer:
            case Acknowledged() if not own:
                flaws.append(f"{submitted} was acknowledged and has no completion")
            case Completion() if own[:1] != [answer]:
                flaws.append(f"{submitted} was answered with {answer}, and the stream has {own}")
            case Failure(code) if own:
                flaws.append(f"{submitted} was told {code.name} and has a completion")
            case Failure(_, errors.SUBMISSION_ALREADY_IN_FLIGHT) if not completions.get(
                dict(answer.metadata)["existing_submission_id"]
            ):
                flaws.append(f"{submitted} was told to look for a submission that has no completion")
    return flaws
