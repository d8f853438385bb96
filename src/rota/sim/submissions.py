"""The users' submissions in a seed: each request with its time, and its user's later actions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from random import Random
from typing import NamedTuple

from rota.model.frozen import dataclass
from rota.model.types import Contract, ContractAddress, Mode, NodeName, SubmitMode

# In a small network every node holds every contract, in a larger one only those of which it is a member.
SMALL_NETWORK_MAX = 8
DEPENDENT = 0.1
CANCELLED = 0.1
EXTERNAL = 0.05
COMMITTED = 0.7
REPEATED = 0.04
RESUMED = 0.05
DRAWING_SEEDS = 0.25
DRAWS = 0.5
PLANNING_SEEDS = 0.5
PLANNED = 0.15
PLAN_NAMES_MAX = 2
CHAINING_SEEDS = 0.5
CHAINED = 0.8
CHAINABLE = ("spend", "pay", "draw")
FUNDED = 0.2
TAKEN = 0.5


@dataclass(frozen=True, slots=True)
class Submission:
    """A user's request, and the user's later actions."""

    number: int
    at_ms: int
    node: NodeName
    contract: ContractAddress
    payload: str
    depends_on: int | None = None
    party: str = ""
    cancel_after_ms: int | None = None
    change_after_ms: int | None = None
    repeat_after_ms: int | None = None
    mode: SubmitMode = SubmitMode.AUTO
    commit_after_ms: int | None = None


class Town(NamedTuple):
    """A contract, the nodes that have it, and the nodes whose users may use it."""

    contract: ContractAddress
    holders: tuple[NodeName, ...]
    senders: tuple[NodeName, ...]


def holders_of(contract: Contract, names: tuple[NodeName, ...]) -> tuple[NodeName, ...]:
    """The nodes that have a contract."""
    if len(names) <= SMALL_NETWORK_MAX:
        return names
    return tuple(dict.fromkeys((*contract.committee, *contract.endorsers)))


def senders_of(contract: Contract, names: tuple[NodeName, ...]) -> tuple[NodeName, ...]:
    """The nodes whose users may use it: members of the genesis in `ring`, else all holders (protocol §5)."""
    return contract.committee if contract.mode is Mode.RING else holders_of(contract, names)


def draw_submissions(
    seed: int, names: tuple[NodeName, ...], contracts: tuple[Contract, ...], trouble_ms: int
) -> Iterator[Submission]:
    """The users' requests of a seed, in the order of their times."""
    random = Random(f"{seed}/intents")
    gaps_ms = random.choice(((1, 20, 100, 390, 800), (1, 1, 1, 5, 1_290), (260,), (45, 475)))
    contention, shared_count = random.choice((0.1, 0.5, 0.9)), random.randint(1, 4)
    latest: dict[NodeName, int] = {}
    number, at_ms = 0, 0
    while (at_ms := at_ms + random.choice(gaps_ms)) < trouble_ms:
        number += 1
        contract = random.choice(contracts)
        town = Town(contract.address, holders_of(contract, names), senders_of(contract, names))
        yield draw_submission(random, number, at_ms, town, (contention, shared_count), latest)


def draw_submission(
    random: Random, number: int, at_ms: int, town: Town, contention: tuple[float, int], latest: dict[NodeName, int]
) -> Submission:
    """Draw one request; `latest` has the last one of each node, on which it may depend."""
    node = random.choice(town.senders)
    payload = draw_payload(random, *contention, town.holders)
    chance = random.random()
    party = f"user@{random.choice(town.holders)}" if chance < 0.1 else f"nobody@{node}" if chance < 0.11 else ""
    drawn = Submission(
        number,
        at_ms,
        node,
        town.contract,
        payload,
        latest.get(node) if random.random() < DEPENDENT else None,
        party,
        random.choice((1, 100, 1_000, 5_000, 20_000)) if random.random() < CANCELLED else None,
        random.randint(100, 20_000) if random.random() < (0.8 if payload in ("park", "fail") else RESUMED) else None,
        random.choice((1, 500, 5_000)) if random.random() < REPEATED else None,
        SubmitMode.EXTERNAL if payload == "prepare" or random.random() < EXTERNAL else SubmitMode.AUTO,
        random.choice((1, 1_000, 5_000, 20_000)) if random.random() < COMMITTED else None,
    )
    latest[node] = number
    return drawn


def draw_payload(random: Random, contention: float, shared_count: int, holders: tuple[NodeName, ...]) -> str:
    chance = random.random()
    if chance < 0.14:
        rare = ("refuse", "revert", "park", "fail", "revert-on-chain", "revert-on-chain-for-good")
        return random.choice((*rare, f"refuse:{random.choice(holders)}"))
    if random.random() < contention:
        first, second = random.randint(1, shared_count), random.randint(1, shared_count)
        return f"spend:{first}+{second}" if first < second and random.random() < 0.3 else f"spend:{first}"
    pay, look = f"pay:{random.choice(holders)}", f"look:{random.randint(1, shared_count)}"
    return random.choice(("mint", "prepare", pay, look))


def with_draws(seed: int, submissions: tuple[Submission, ...]) -> Iterator[Submission]:
    """In some seeds, replace spends of shared states by `draw`, which waits while these are locked."""
    random = Random(f"{seed}/draws")
    share = DRAWS if random.random() < DRAWING_SEEDS else 0.0
    for submission in submissions:
        verb, _, names = submission.payload.partition(":")
        is_drawn = random.random() < share and verb == "spend" and "+" not in names
        if is_drawn and submission.mode is SubmitMode.AUTO:
            yield replace(submission, payload=f"draw:{names}")
        else:
            yield submission


def among_liars(seed: int, submissions: tuple[Submission, ...]) -> Iterator[Submission]:
    """Among liars, some users spend funds that only they have: these payments fail if the funds are locked.

    Honest endorsers judge alike in such worlds: if one refuses and a liar is silent, the validity of an intent is
    undecidable.
    """
    random = Random(f"{seed}/funds")
    for submission in submissions:
        chance = random.random()
        payload = (
            submission.payload.partition(":")[0] if submission.payload.startswith("refuse") else submission.payload
        )
        if payload == "mint" and submission.mode is SubmitMode.AUTO and chance < FUNDED + TAKEN:
            payload = "fund" if chance < FUNDED else "take"
        yield replace(submission, payload=payload)


def with_plans(
    seed: int, submissions: Iterable[Submission], contracts: tuple[Contract, ...], liars: frozenset[NodeName]
) -> Iterator[Submission]:
    """In some seeds, give transactions of these contracts plans: a second party that signs, up to two endorsers.

    Plans name no liars, since an endorser that a plan names may rightfully block the transaction. A build from before
    plans has no domain with plans.
    """
    random = Random(f"{seed}/plans")
    share = PLANNED if random.random() < PLANNING_SEEDS else 0.0
    honest = {each.address: [name for name in each.endorsers if name not in liars] for each in contracts}
    for submission in submissions:
        if submission.contract not in honest:
            yield submission
            continue
        names = honest[submission.contract]
        chosen = random.sample(names, min(len(names), random.randint(0, PLAN_NAMES_MAX)))
        is_plain = submission.payload.partition(":")[0] in ("mint", "pay", "spend", "fund")
        if is_plain and random.random() < share:
            yield replace(submission, payload=f"seal:{'+'.join(chosen)}")
        else:
            yield submission


def with_chains(seed: int, submissions: tuple[Submission, ...]) -> Iterator[Submission]:
    """In some seeds, a dependent request repeats its dependency in the same contract, and so reads its states.

    Such a dependent may be dispatched behind its dependency (protocol §4.3).
    """
    random = Random(f"{seed}/chains")
    share = CHAINED if random.random() < CHAINING_SEEDS else 0.0
    known: dict[int, Submission] = {}
    for drawn in submissions:
        submission, is_drawn = drawn, random.random() < share
        other = known.get(drawn.depends_on) if drawn.depends_on is not None else None
        if is_drawn and other is not None and other.payload.partition(":")[0] in CHAINABLE:
            submission = replace(drawn, contract=other.contract, payload=other.payload, mode=SubmitMode.AUTO)
        known[submission.number] = submission
        yield submission
