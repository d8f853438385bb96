"""The block index: blocks in, outcomes out, undo; and that it always ends where the chain does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.chain.effects import FetchBlocks
from rota.chain.events import BlocksFetched, HeadSeen
from rota.chain.index import ChainIndex, IndexChange
from rota.model.blocks import ChainBlock
from rota.model.config import Config
from rota.model.types import BlockHash

CONFIG = Config(confirmations=2, index_window_max=8, fetch_blocks_max=5)
SHALLOW = replace(CONFIG, confirmations=0)


def hash_of(name: str) -> BlockHash:
    return BlockHash(name.encode().ljust(32, b"."))


def blocks(*names: str, on: str = "0") -> tuple[ChainBlock, ...]:
    """Blocks of these names, one on top of the other; a name is a height and, on another branch, a letter."""
    parents = (on, *names[:-1])
    return tuple(
        ChainBlock(height_of(name), hash_of(name), hash_of(parent), 1_000 + height_of(name))
        for name, parent in zip(names, parents, strict=True)
    )


def height_of(name: str) -> int:
    return int(name.rstrip("abcdefgh"))


GENESIS = blocks("0", on="-")
FIRST_FOUR = (*GENESIS, *blocks("1", "2", "3", "4"))


@dataclass
class IndexBench:
    """An index whose questions and changes are dealt with by hand."""

    stored: tuple[ChainBlock, ...] = FIRST_FOUR
    config: Config = CONFIG
    now_ms: int = 0

    def __post_init__(self) -> None:
        """Where something is stored, the index has caught up: the chain stands there."""
        self.index = ChainIndex(self.config, self.now_ms, self.stored)
        if self.stored:
            self.index.take_head(self.now_ms, HeadSeen(self.stored[-1].height, self.stored[-1].hash))
            assert self.index.has_just_come_back(self.now_ms)

    def head(self, name: str) -> FetchBlocks | None:
        """The chain stands there; what the index asks for."""
        self.index.take_head(self.now_ms, HeadSeen(height_of(name), hash_of(name)))
        return self.index.next_fetch(self.now_ms)

    def answer(self, *found: ChainBlock) -> IndexChange | None:
        return self.index.take_blocks(self.now_ms, BlocksFetched(found))

    def ask(self) -> FetchBlocks | None:
        return self.index.next_fetch(self.now_ms)

    def take(self, *found: ChainBlock) -> IndexChange:
        """The answer is attached."""
        change = self.answer(*found)
        assert change is not None
        self.index.take_change(self.now_ms, change)
        return change

    def names(self) -> list[str]:
        return [block.hash.decode().rstrip(".") for block in self.index.blocks]


def names_of(found: tuple[ChainBlock, ...]) -> list[str]:
    return [block.hash.decode().rstrip(".") for block in found]


# Asking.


def test_nothing_is_asked_before_the_chain_was_heard_of() -> None:
    assert IndexBench().ask() is None


def test_what_lies_between_our_latest_block_and_the_chains_is_asked_for() -> None:
    assert IndexBench().head("6") == FetchBlocks(4, 6)


def test_latest_block_that_we_have_is_no_news() -> None:
    bench = IndexBench()
    assert bench.head("4") is None
    assert bench.index.next_due_ms() == CONFIG.ledger_grace_ms


def test_one_question_holds_only_so_many_blocks() -> None:
    assert IndexBench().head("60") == FetchBlocks(4, 9)


def test_empty_index_asks_from_where_it_is_told_to_begin() -> None:
    bench = IndexBench((), replace(CONFIG, index_from_height=30))
    assert bench.head("60") == FetchBlocks(30, 35)
    assert bench.index.height == 0


def test_question_is_repeated_only_when_it_stays_unanswered() -> None:
    bench = IndexBench()
    assert bench.head("5") is not None
    bench.now_ms = CONFIG.request_timeout_ms - 1
    assert bench.head("6") is None
    assert bench.index.next_due_ms() == CONFIG.request_timeout_ms
    bench.now_ms += 1
    assert bench.ask() == FetchBlocks(4, 6)


# Attaching.


def test_new_blocks_are_attached_when_the_change_is_taken() -> None:
    bench = IndexBench()
    bench.head("6")
    change = bench.answer(*blocks("4", "5", "6", on="3"))
    assert change == IndexChange(4, (), blocks("5", "6", on="4"))
    assert change.height == 6
    assert bench.index.height == 4
    bench.index.take_change(bench.now_ms, change)
    assert bench.names() == ["0", "1", "2", "3", "4", "5", "6"]


def test_next_blocks_are_asked_for_from_the_change_that_was_taken() -> None:
    bench = IndexBench()
    bench.head("5")
    bench.take(*blocks("4", "5", on="3"))
    assert bench.index.next_due_ms() == CONFIG.ledger_grace_ms
    assert bench.head("6") == FetchBlocks(5, 6)


def test_first_blocks_of_an_empty_index_are_taken_as_they_are() -> None:
    bench = IndexBench((), CONFIG)
    bench.head("2")
    assert bench.take(*GENESIS, *blocks("1", "2")) == IndexChange(-1, (), (*GENESIS, *blocks("1", "2")))
    assert bench.index.take_final() == GENESIS


def test_blocks_between_two_of_an_answer_did_nothing_that_concerns_us() -> None:
    bench = IndexBench()
    bench.head("9")
    far = replace(blocks("9")[0], parent=hash_of("8"))
    bench.take(*blocks("4", on="3"), far)
    assert bench.names()[-2:] == ["4", "9"]


# Answers that do not fit.


@pytest.mark.parametrize(
    "found",
    [
        (),
        blocks("4", on="3"),
        (*blocks("4", on="3"), *blocks("5", on="4a")),
        (*blocks("4", on="3"), *blocks("4", on="3")),
    ],
    ids=["nothing", "nothing new", "of two chains", "not ascending"],
)
def test_answer_that_brings_nothing_is_asked_for_again_but_not_at_once(found: tuple[ChainBlock, ...]) -> None:
    bench = IndexBench()
    bench.head("5")
    assert bench.answer(*found) is None
    assert bench.ask() is None
    bench.now_ms = CONFIG.request_timeout_ms
    assert bench.ask() == FetchBlocks(4, 5)


def test_answer_to_an_earlier_question_changes_nothing() -> None:
    bench = IndexBench()
    bench.head("5")
    bench.take(*blocks("4", "5", on="3"))
    assert bench.head("6") == FetchBlocks(5, 6)
    assert bench.answer(*blocks("4", "5", on="3")) is None
    assert bench.ask() is None
    assert bench.answer(*blocks("5", "6", on="4")) is not None


def test_answer_that_nobody_asked_for_changes_nothing() -> None:
    assert IndexBench().answer(*blocks("4", "5", on="3")) is None


def test_copy_of_an_answer_that_was_taken_changes_nothing() -> None:
    bench = IndexBench()
    bench.head("5")
    bench.take(*blocks("4", "5", on="3"))
    assert bench.answer(*blocks("4", "5", on="3")) is None
    assert bench.names() == ["0", "1", "2", "3", "4", "5"]


def test_answer_counts_though_a_part_of_the_chain_that_lags_was_heard_of_meanwhile() -> None:
    bench = IndexBench()
    bench.head("5")
    assert bench.head("3") is None
    assert bench.answer(*blocks("4", "5", on="3")) is not None


# Reorganisations.


def test_latest_block_is_replaced_by_another_of_the_same_height() -> None:
    bench = IndexBench()
    assert bench.head("4a") == FetchBlocks(4, 4)
    assert bench.answer(*blocks("4a", on="3")) is None
    assert bench.ask() == FetchBlocks(3, 4)
    change = bench.take(*blocks("3", "4a", on="2"))
    assert change == IndexChange(3, blocks("4", on="3"), blocks("4a", on="3"))
    assert bench.names() == ["0", "1", "2", "3", "4a"]


def test_steps_back_grow_until_both_chains_meet() -> None:
    bench = IndexBench()
    first = bench.head("5a")
    branch = blocks("1a", "2a", "3a", "4a", "5a")
    asked = []
    while first is not None and first.first > 0:
        asked.append(first.first)
        assert bench.answer(*branch[first.first - 1 :]) is None
        first = bench.ask()
    assert asked == [4, 3, 1]
    change = bench.take(*GENESIS, *branch)
    assert names_of(change.removed) == ["4", "3", "2", "1"]
    assert bench.names() == ["0", "1a", "2a", "3a", "4a", "5a"]


def test_blocks_that_went_are_told_latest_first_and_those_that_came_earliest_first() -> None:
    bench = IndexBench()
    bench.head("5a")
    bench.answer(*blocks("4a", "5a", on="3a"))
    assert bench.ask() == FetchBlocks(3, 5)
    change = bench.take(*blocks("3", "4a", "5a", on="2"))
    assert (change.parted_at, names_of(change.removed), names_of(change.added)) == (3, ["4"], ["4a", "5a"])


def test_reorganisation_below_what_was_final_is_taken_and_becomes_final_anew() -> None:
    bench = IndexBench(config=SHALLOW)
    assert bench.index.final_height == 4
    bench.head("4a")
    bench.answer(*blocks("4a", on="3a"))
    bench.ask()
    bench.answer(*blocks("3a", "4a", on="2"))
    bench.ask()
    change = bench.take(*blocks("1", "2", "3a", "4a"))
    assert change.parted_at == 2
    assert names_of(bench.index.take_final()) == ["3a", "4a"]


def test_fork_in_blocks_that_one_question_cannot_hold_is_gone_up_piece_by_piece() -> None:
    """After a catch-up the index has blocks far apart: from the place where both meet, the latest is out of reach."""
    sparse = tuple(
        replace(block, parent=hash_of("-")) for name in ("0", "5", "10", "15", "16") for block in blocks(name)
    )
    bench = IndexBench(sparse)
    assert bench.head("17a") == FetchBlocks(16, 17)
    bench.answer(*blocks("16a", "17a", on="15a"))
    assert bench.ask() == FetchBlocks(15, 17)
    bench.answer(*blocks("15a", "17a", on="14a")[:1])
    assert bench.ask() == FetchBlocks(5, 10)
    assert bench.answer(sparse[1], sparse[2]) is None
    assert bench.ask() == FetchBlocks(10, 15)
    change = bench.take(sparse[2], replace(blocks("15a")[0], parent=hash_of("14a")))
    assert (change.parted_at, names_of(change.removed), names_of(change.added)) == (10, ["16", "15"], ["15a"])
    assert bench.ask() == FetchBlocks(15, 17)
    bench.take(*blocks("15a", "16a", "17a", on="14a"))
    assert bench.names() == ["0", "5", "10", "15a", "16a", "17a"]


def test_part_of_a_longer_chain_that_says_less_than_was_asked_is_not_believed() -> None:
    sparse = tuple(replace(block, parent=hash_of("-")) for name in ("0", "5", "10", "11") for block in blocks(name))
    bench = IndexBench(sparse)
    bench.head("12a")
    bench.answer(*blocks("11a", on="10a"))
    bench.ask()
    bench.answer(*blocks("10a", on="9a"))
    assert bench.ask() == FetchBlocks(0, 5)
    assert bench.answer(sparse[0], *blocks("4a", on="3a")) is None
    assert bench.names() == ["0", "5", "10", "11"]


def test_chain_that_has_no_block_of_ours_is_a_fork_and_is_looked_at_again_and_again() -> None:
    bench = IndexBench()
    question = bench.head("4a")
    while not bench.index.is_forked:
        assert question is not None
        assert bench.answer(*blocks("0a", "1a", "2a", "3a", "4a", on="-")[question.first :]) is None
        question = bench.ask()
    assert question is None
    for _ in range(100):
        bench.now_ms += CONFIG.request_timeout_ms
        assert bench.ask() == FetchBlocks(0, 4)
        assert bench.answer(*blocks("0a", "1a", "2a", "3a", "4a", on="-")) is None
        assert bench.index.has_just_been_lost(bench.now_ms) == (bench.now_ms == CONFIG.ledger_grace_ms)
    assert bench.names() == ["0", "1", "2", "3", "4"]


def test_fork_ends_when_the_chain_is_ours_again() -> None:
    bench = IndexBench(GENESIS)
    bench.head("0a")
    bench.answer(*blocks("0a", on="-"))
    assert bench.index.is_forked
    assert bench.head("0") is None
    assert not bench.index.is_forked


# Chains that seem shorter.


def test_part_of_the_chain_that_lags_is_no_news() -> None:
    bench = IndexBench()
    assert bench.head("2") is None
    assert bench.index.next_due_ms() == CONFIG.stale_head_ms


def test_shorter_chain_is_believed_only_when_nothing_else_was_seen_for_long() -> None:
    bench = IndexBench()
    bench.head("2")
    bench.now_ms = CONFIG.stale_head_ms - 1
    assert bench.head("2") is None
    bench.now_ms += 1
    assert bench.head("2") == FetchBlocks(2, 2)
    change = bench.take(*blocks("2", on="1"))
    assert (change.height, names_of(change.removed), change.added) == (2, ["4", "3"], ())
    assert bench.names() == ["0", "1", "2"]
    assert bench.index.next_due_ms() == bench.now_ms + CONFIG.ledger_grace_ms


def test_shorter_chain_on_another_branch_is_found_too() -> None:
    bench = IndexBench()
    bench.head("3a")
    bench.now_ms = CONFIG.stale_head_ms
    assert bench.ask() == FetchBlocks(3, 3)
    assert bench.answer(*blocks("3a", on="2")) is None
    assert bench.ask() == FetchBlocks(3, 3)
    assert bench.answer(*blocks("3a", on="2")) is None
    assert bench.ask() == FetchBlocks(1, 3)
    bench.take(*blocks("1", "2", "3a"))
    assert bench.names() == ["0", "1", "2", "3a"]


def test_one_block_that_is_not_older_ends_the_doubt() -> None:
    bench = IndexBench()
    bench.head("2")
    bench.now_ms = CONFIG.stale_head_ms - 1
    bench.head("4")
    bench.now_ms += 1
    assert bench.head("2") is None
    assert bench.answer(*blocks("2", on="1")) is None


# Finality.


def test_blocks_become_final_at_their_depth_earliest_first_and_once() -> None:
    bench = IndexBench(FIRST_FOUR[:3])
    bench.head("4")
    bench.take(*blocks("2", "3", "4", on="1"))
    assert names_of(bench.index.take_final()) == ["1", "2"]
    assert bench.index.take_final() == ()
    assert names_of(bench.index.unfinal()) == ["3", "4"]


def test_shorter_chain_makes_nothing_final_and_nothing_unfinal() -> None:
    bench = IndexBench()
    bench.head("3")
    bench.now_ms = CONFIG.stale_head_ms
    bench.ask()
    bench.take(*blocks("3", on="2"))
    assert bench.index.take_final() == ()
    assert bench.index.final_height == 2


def test_restarted_index_goes_through_what_was_not_final_and_finalises_it() -> None:
    bench = IndexBench()
    assert names_of(bench.index.unfinal()) == ["3", "4"]
    bench.head("5")
    bench.take(*blocks("4", "5", on="3"))
    assert names_of(bench.index.take_final()) == ["3"]


def test_only_the_latest_blocks_are_kept() -> None:
    bench = IndexBench()
    bench.head("9")
    bench.take(*blocks("4", "5", "6", "7", "8", "9", on="3"))
    bench.index.take_final()
    assert bench.names() == ["2", "3", "4", "5", "6", "7", "8", "9"]


# The ledger is lost and found.


def test_ledger_is_lost_when_the_latest_block_was_not_reached_for_its_grace_and_that_is_told_once() -> None:
    bench = IndexBench()
    assert not bench.index.has_just_been_lost(CONFIG.ledger_grace_ms - 1)
    assert bench.index.has_just_been_lost(CONFIG.ledger_grace_ms)
    assert not bench.index.has_just_been_lost(CONFIG.ledger_grace_ms + 1)
    assert bench.index.next_due_ms() is None


def test_ledger_is_found_when_the_latest_block_is_reached_and_that_is_told_once() -> None:
    bench = IndexBench()
    bench.now_ms = CONFIG.ledger_grace_ms
    assert bench.index.has_just_been_lost(bench.now_ms)
    bench.head("5")
    assert not bench.index.has_just_come_back(bench.now_ms)
    bench.take(*blocks("4", "5", on="3"))
    assert bench.index.has_just_come_back(bench.now_ms)
    assert not bench.index.has_just_come_back(bench.now_ms)


def test_process_that_slept_through_the_grace_first_hears_where_the_chain_stands() -> None:
    bench = IndexBench()
    bench.now_ms = 60_000
    assert not bench.index.has_just_been_lost(bench.now_ms)
    assert bench.index.next_due_ms() == bench.now_ms + CONFIG.request_timeout_ms
    assert bench.index.has_just_been_lost(bench.now_ms + CONFIG.request_timeout_ms)
    bench = IndexBench()
    bench.now_ms = 60_000
    assert not bench.index.has_just_been_lost(bench.now_ms)
    bench.head("4")
    assert not bench.index.has_just_been_lost(bench.now_ms + CONFIG.request_timeout_ms)


def test_part_of_the_chain_that_lags_is_the_ledger_too() -> None:
    bench = IndexBench()
    bench.now_ms = CONFIG.ledger_grace_ms - 1
    bench.head("3")
    assert not bench.index.has_just_been_lost(bench.now_ms + 1)


def test_index_that_is_always_a_block_behind_has_its_ledger() -> None:
    bench = IndexBench()
    bench.head("5")
    for height in range(5, 100):
        bench.now_ms += 200
        bench.head(str(height + 1))
        bench.take(*blocks(str(height - 1), str(height), on=str(height - 2)))
        assert bench.ask() == FetchBlocks(height, height + 1)
        assert not bench.index.has_just_been_lost(bench.now_ms)


def test_index_that_falls_behind_for_longer_than_the_grace_has_no_ledger_until_it_catches_up() -> None:
    bench = IndexBench()
    bench.head("60")
    bench.now_ms = CONFIG.ledger_grace_ms
    assert bench.index.has_just_been_lost(bench.now_ms)
    while bench.index.height < 60:
        first = bench.index.height
        last = min(first + CONFIG.fetch_blocks_max, 60)
        bench.ask()
        bench.head("70")
        found = blocks(*(str(height) for height in range(first, last + 1)), on=str(first - 1))
        bench.take(*found)
        assert not bench.index.has_just_come_back(bench.now_ms)


# Whatever happens, the index ends where the chain does.


@dataclass
class Story:
    """A chain that branches, parts of it that lag, answers that are lost, late, cut short or of an older chain."""

    config: Config
    numbers: Iterator[int]

    def __post_init__(self) -> None:
        self.chain: list[ChainBlock] = [*GENESIS]
        self.past: list[list[ChainBlock]] = [list(self.chain)]
        self.made = 0
        self.now_ms = 0
        self.index = ChainIndex(self.config, 0, GENESIS)
        self.disk: list[ChainBlock] = [*GENESIS]
        self.told: list[ChainBlock] = [*GENESIS]
        self.final_height = self.index.final_height
        self.asked: list[FetchBlocks] = []

    def draw(self, count: int) -> int:
        """One of so many."""
        return next(self.numbers, 0) % count

    def grow(self) -> None:
        """A block, or several; or other blocks instead of the latest ones."""
        depth = min((0, 0, 1, 2, 4)[self.draw(5)], len(self.chain) - 1)
        if depth:
            del self.chain[-depth:]
        for _ in range(depth + 1 + self.draw(3)):
            self.made += 1
            parent = self.chain[-1]
            name = BlockHash(self.made.to_bytes(32, "big"))
            self.chain.append(ChainBlock(parent.height + 1, name, parent.hash, parent.time_s + 1))
        self.past.append(list(self.chain))

    def show_head(self, chain: list[ChainBlock]) -> None:
        """Where this chain, or a part of it that lags, stands."""
        self.index.take_head(self.now_ms, HeadSeen(chain[-1].height, chain[-1].hash))
        self.look()

    def look(self) -> None:
        question = self.index.next_fetch(self.now_ms)
        if question is not None:
            self.asked.append(question)

    def answer(self, chain: list[ChainBlock], question: FetchBlocks) -> None:
        """By somebody who knows this chain; only blocks of even hash concern us."""
        found = [block for block in chain if question.first <= block.height <= question.last]
        kept = [block for block in found if block in (found[0], found[-1]) or block.hash[-1] % 2 == 0]
        change = self.index.take_blocks(self.now_ms, BlocksFetched(tuple(kept)))
        if change is not None:
            self.take(change)
        self.look()

    def take(self, change: IndexChange) -> None:
        self.index.take_change(self.now_ms, change)
        for block in change.removed:
            assert self.told.pop() == block, "what is undone was told last"
        assert self.told[-1].height == change.parted_at, "what stays is where both chains part"
        self.final_height = min(self.final_height, change.parted_at)
        self.told.extend(change.added)
        for block in self.index.take_final():
            assert block in self.told, "what is final was told"
            assert block.height > self.final_height, "it becomes final once, in order"
            self.final_height = block.height
        assert self.told[-len(self.index.blocks) :] == self.index.blocks

    def step(self) -> None:
        self.now_ms += self.draw(400)
        match self.draw(8):
            case 0 | 1:
                self.grow()
            case 2 | 3:
                self.show_head(self.chain)
            case 4:
                old = self.past[max(0, len(self.past) - 1 - self.draw(4))]
                self.show_head(old[: max(1, len(old) - self.draw(4))])
            case 5 | 6 if self.asked:
                self.answer(self.chain, self.asked.pop())
            case 7 if self.asked:
                old = self.past[max(0, len(self.past) - 1 - self.draw(4))]
                self.answer(old, self.asked[self.draw(len(self.asked))])
            case _:
                self.restart() if self.draw(20) == 0 else self.look()

    def restart(self) -> None:
        """A new life with the blocks that were kept: what was not final is told to it anew."""
        stored = tuple(self.index.blocks)
        self.index = ChainIndex(self.config, self.now_ms, stored)
        self.asked.clear()
        assert self.index.unfinal() == tuple(
            b for b in stored if b.height > stored[-1].height - self.config.confirmations
        )
        self.final_height = self.index.final_height

    def calm_down(self) -> None:
        """Nothing goes wrong any more: how many steps until the index is there?"""
        for _ in range(CALM_STEPS_MAX):
            self.show_head(self.chain)
            while self.asked:
                self.answer(self.chain, self.asked.pop())
            if self.index.blocks[-1] == self.chain[-1]:
                return
            self.now_ms += self.config.request_timeout_ms
        raise AssertionError("the index does not reach the chain")


CALM_STEPS_MAX = 100


@given(st.lists(st.integers(0, 9_999), max_size=250), st.integers(0, 3), st.integers(1, 6))
@settings(max_examples=200, deadline=None)
def test_index_ends_equal_to_the_chain_and_tells_undoes_and_finalises_in_matching_order(
    numbers: list[int], confirmations: int, fetch_blocks_max: int
) -> None:
    config = Config(confirmations=confirmations, index_window_max=200, fetch_blocks_max=fetch_blocks_max)
    story = Story(config, iter(numbers))
    for _ in range(len(numbers) // 3):
        story.step()
    story.calm_down()
    ours = {block.height: block for block in story.told}
    for block in story.chain:
        assert block.hash[-1] % 2 == 1 or ours[block.height] == block, "every block that concerns us was told"
    assert all(block in story.chain for block in story.told), "and none that is gone"
    assert story.index.has_just_come_back(story.now_ms) or not story.index.is_lost
