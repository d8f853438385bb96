"""Finding states: by label, by query, and coins by what they are worth."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domains.available import Available, Known, Shelf, SpentAs, cover, cover_in_order, own_id
from rota.domains.contents import Content, Told, seal
from rota.domains.noto.records import Coin, Lock
from rota.domains.queries import Query
from rota.domains.records import Record, Rejected
from rota.model.digests import state_commitment
from rota.model.types import Leaf, NodeName, Party, State, StateId

KNOWN = {"NotoCoin": Coin, "NotoLockedCoin": Lock}
ALICE, BOB = Party("alice@a"), Party("Bob@b")
NODE = NodeName("a")


def state(number: int, record: Record | None) -> State:
    content = seal(Content(record, (Told(0, Coin(ALICE, 7)),), (ALICE,), number.to_bytes(32, "big")))
    return State(reference(number), state_commitment(content), (NODE,), content)


def reference(number: int) -> StateId:
    return StateId(Leaf(number.to_bytes(32, "big")), 0)


def shelf(*records: Record) -> Shelf:
    return Shelf(KNOWN, [state(number, record) for number, record in enumerate(records)])


def amounts(states: Iterable[Known[Coin]]) -> list[int]:
    return [each.record.amount for each in states]


def test_states_are_found_by_their_labels_and_by_what_holds() -> None:
    available = Available(shelf(Coin(ALICE, 1), Coin(BOB, 2), Coin(ALICE, 3), Lock(bytes(32), ALICE, 4, ALICE)))
    assert amounts(available.where(Coin)) == [1, 2, 3]
    assert amounts(available.where(Coin, owner=ALICE)) == [1, 3]
    assert amounts(available.where(Coin, lambda coin: coin.amount > 1, owner=ALICE)) == [3]
    assert amounts(available.where(Coin, amount=2, owner=ALICE)) == []
    assert len(available.where(Lock, lock_id=bytes(32))) == 1
    assert len(available.where(Lock, spender=ALICE)) == 1


def test_what_is_locked_is_not_there_and_what_is_under_way_is() -> None:
    held = shelf(Coin(ALICE, 1), Coin(ALICE, 2))
    available = Available(held, [reference(0), reference(8)], [state(7, Coin(ALICE, 7)), state(8, Coin(ALICE, 8))])
    assert amounts(available.where(Coin)) == [2, 7]
    available.add(state(9, Coin(ALICE, 9)))
    available.remove(reference(1))
    assert amounts(available.where(Coin, owner=ALICE)) == [7, 9]
    assert available.get(reference(1)) is None
    assert available.get(reference(9)) is not None
    # The shelf beneath is as it was.
    assert amounts(Available(held).where(Coin)) == [1, 2]


def spent_as_even(known: Known[Record]) -> StateId:
    """By a reference of its own; two states in a row share one."""
    return StateId(Leaf((1_000 + int.from_bytes(known.id.leaf, "big") // 2).to_bytes(32, "big")), 255)


@pytest.mark.parametrize("spent_as", [own_id, spent_as_even])
@given(
    owners=st.lists(st.sampled_from((ALICE, BOB)), max_size=6),
    locked=st.sets(st.integers(0, 9)),
    under_way=st.sets(st.integers(0, 9)),
    removed=st.sets(st.integers(0, 9)),
)
def test_total_is_that_of_the_states_that_are_found(
    spent_as: SpentAs, owners: list[Party], locked: set[int], under_way: set[int], removed: set[int]
) -> None:
    coins = [state(number, Coin(owner, 1 + 3**number)) for number, owner in enumerate(owners)]
    held = Shelf(KNOWN, coins, spent_as)
    owner_of = dict(enumerate(owners))
    told = [state(number, Coin(owner_of.get(number, ALICE), 1 + 3**number)) for number in under_way]
    found_as = [spent_as(Known(reference(number), Coin(ALICE, 1), bytes(32), ())) for number in locked]
    references = [each for each in found_as if each is not None]
    available = Available(held, references, told)
    for number in removed:
        available.remove(reference(number))
    for owner in (ALICE, BOB):
        found = amounts(available.where(Coin, owner=owner))
        assert available.total(Coin, "owner", owner) == (len(found), sum(found))
    for number in range(10):
        held.remove(reference(number))
    assert held.total((Coin, "owner", ALICE)) == (0, 0)


def test_a_state_that_is_confirmed_while_it_is_offered_is_there_once() -> None:
    assert amounts(Available(shelf(Coin(ALICE, 1)), (), [state(0, Coin(ALICE, 1))]).where(Coin)) == [1]


def test_what_cannot_be_read_is_held_and_not_found() -> None:
    held = shelf()
    hidden = State(reference(1), bytes(32), (NODE,))
    for each in (hidden, State(reference(2), bytes(32), (NODE,), b"junk"), state(3, None)):
        held.put(each)
    assert len(held) == 3
    assert held[reference(1)] == hidden
    assert Available(held).where(Coin) == ()


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from([ALICE, BOB]), st.integers(0, 3), st.booleans())))
def test_a_shelf_finds_what_looking_at_everything_finds(changes: list[tuple[int, Party, int, bool]]) -> None:
    held = shelf()
    model: dict[StateId, Coin] = {}
    for number, owner, amount, is_put in changes:
        if is_put:
            held.put(state(number, Coin(owner, amount)))
            model.pop(reference(number), None)
            model[reference(number)] = Coin(owner, amount)
        else:
            held.remove(reference(number))
            model.pop(reference(number), None)
    assert list(held) == list(model)
    for labels in ({}, {"owner": ALICE}, {"amount": 2}, {"owner": BOB, "amount": 1}):
        wanted = [ref for ref, coin in model.items() if all(getattr(coin, n) == v for n, v in labels.items())]
        assert [each.id for each in held.find(Coin, labels)] == wanted


@given(
    st.dictionaries(st.integers(0, 30), st.tuples(st.sampled_from([ALICE, BOB]), st.integers(0, 4))),
    st.dictionaries(st.integers(0, 30), st.tuples(st.sampled_from([ALICE, BOB]), st.integers(0, 4))),
    st.sets(st.integers(0, 30)),
    st.sets(st.integers(0, 30)),
)
def test_largest_first_yields_every_available_state_once_in_order(
    held: dict[int, tuple[Party, int]], on_top: dict[int, tuple[Party, int]], locked: set[int], removed: set[int]
) -> None:
    # A lying snapshot may show another amount for a confirmed state.
    on_top = {number: (held.get(number, coin)[0], coin[1]) for number, coin in on_top.items()}
    confirmed = Shelf(KNOWN, [state(number, Coin(*coin)) for number, coin in held.items()])
    under_way = [state(number, Coin(*coin)) for number, coin in on_top.items()]
    available = Available(confirmed, [reference(number) for number in locked], under_way)
    for number in removed:
        available.remove(reference(number))
    for owner in (ALICE, BOB):
        wanted = sorted(available.where(Coin, owner=owner), key=lambda coin: (-coin.record.amount, coin.id))
        assert list(available.largest_first(Coin, "owner", owner)) == wanted


def calls_of(action: Callable[[], object]) -> int:
    """How many functions of ours an action calls: a cost that does not depend on the machine."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def test_choosing_coins_costs_the_same_however_many_are_held() -> None:
    def cost(held: int) -> int:
        available = Available(shelf(*(Coin(ALICE, 1 + number) for number in range(held))))
        coins = available.largest_first(Coin, "owner", ALICE)
        return calls_of(lambda: cover_in_order(coins, 3, lambda coin: coin.amount, 8))

    assert cost(2_000) == cost(20)


@given(st.lists(st.integers(0, 50), max_size=12), st.integers(0, 200), st.integers(1, 8))
def test_coins_that_cover_an_amount_are_the_fewest(values: list[int], amount: int, count_max: int) -> None:
    coins = list(shelf(*(Coin(ALICE, value) for value in values)).find(Coin, {}))
    selection = cover(coins, amount, lambda coin: coin.amount, count_max)
    best = sorted(values, reverse=True)[:count_max]
    if selection is None:
        assert sum(best) < amount
        return
    count = len(selection.coins)
    assert selection.total == sum(amounts(selection.coins)) == amount + selection.change
    assert count <= count_max
    assert count == 0 or sum(best[: count - 1]) < amount


# Queries.


FOUND = (Coin(ALICE, 5), Coin(BOB, 10), Coin(ALICE, 100))


def found(query: dict[str, Any]) -> list[int]:
    return amounts(Available(shelf(*FOUND)).query(Coin, Query.parse(query)))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, [5, 10, 100]),
        ({"eq": [{"field": "owner", "value": "alice@a"}]}, [5, 100]),
        ({"equal": [{"field": "amount", "value": "0x0a"}]}, [10]),
        ({"neq": [{"field": "amount", "value": 10}]}, [5, 100]),
        ({"eq": [{"field": "amount", "value": 10, "not": True}]}, [5, 100]),
        ({"gt": [{"field": "amount", "value": 9}]}, [10, 100]),
        ({"greaterThanOrEqual": [{"field": "amount", "value": "10"}], "lt": [{"field": "amount", "value": 100}]}, [10]),
        ({"lte": [{"field": "amount", "value": 10}]}, [5, 10]),
        ({"in": [{"field": "amount", "values": [5, "100", 7]}]}, [5, 100]),
        ({"nin": [{"field": "amount", "values": [5]}]}, [10, 100]),
        ({"null": [{"field": "owner"}]}, []),
        ({"null": [{"field": "owner", "not": True}]}, [5, 10, 100]),
        ({"like": [{"field": "owner", "value": "%ce@_"}]}, [5, 100]),
        ({"like": [{"field": "owner", "value": "bob%"}]}, []),
        ({"like": [{"field": "owner", "value": "bob%", "caseInsensitive": True}]}, [10]),
        ({"or": [{"eq": [{"field": "amount", "value": 5}]}, {"eq": [{"field": "amount", "value": 10}]}]}, [5, 10]),
        ({"sort": ["amount DESC"], "limit": 2}, [100, 10]),
        ({"sort": ["owner", "-amount"]}, [10, 100, 5]),
        ({"limit": 0}, [5, 10, 100]),
    ],
)
def test_a_query_finds(query: dict[str, Any], expected: list[int]) -> None:
    assert found(query) == expected


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ({"between": []}, "query.between"),
        ({"eq": {}}, "query.eq"),
        ({"eq": [{}]}, "query.eq[0].field"),
        ({"eq": [{"field": "colour", "value": 1}]}, "colour"),
        ({"eq": [{"field": "amount", "value": "many"}]}, "amount"),
        ({"eq": [{"field": "amount"}]}, "amount"),
        ({"in": [{"field": "amount"}]}, "query.in[0].values"),
        ({"or": [{"or": [{"or": [{"or": [{"or": [{}]}]}]}]}]}, "query.or[0].or[0].or[0].or[0].or[0]"),
        ({"sort": ["amount SIDEWAYS"]}, "query.sort[0]"),
        ({"sort": [5]}, "query.sort[0]"),
        ({"limit": -1}, "query.limit"),
        ({"limit": "5"}, "query.limit"),
        ({"eq": [{"field": "amount", "value": 1}] * 65}, "query.eq"),
    ],
)
def test_a_wrong_query_is_refused_by_name(query: dict[str, Any], path: str) -> None:
    with pytest.raises(Rejected) as caught:
        found(query)
    assert caught.value.field == path


def test_a_query_is_an_object() -> None:
    with pytest.raises(Rejected, match="query: must be an object"):
        Query.parse([])
    legs = Query.parse({"gt": [{"field": "recipients", "value": []}]})
    with pytest.raises(Rejected, match="lists and tuples have none"):
        legs.holds(Lock(bytes(32), ALICE, 1, ALICE))


@pytest.mark.parametrize(
    ("length", "pattern"),
    [
        (3_000, "%a" * 200 + "b"),
        (500_000, "%" + "a" * 250_000 + "b"),
        (500_000, "%" + "a" * 250_000 + "%b"),
        (500_000, "a%" * 100_000 + "b"),
        (2_000, "%" + "_a" * 900 + "b%"),
        (10, "%" + "_" * 400_000 + "%"),
    ],
)
def test_a_hostile_pattern_takes_no_time(length: int, pattern: str) -> None:
    query = Query.parse({"like": [{"field": "owner", "value": pattern}]})
    assert not query.holds(Coin(Party("a" * length), 1))


def test_a_pattern_that_would_take_long_is_refused() -> None:
    query = Query.parse({"like": [{"field": "owner", "value": "%" + "_a" * 1_000 + "b%"}]})
    with pytest.raises(Rejected, match="must be a shorter pattern"):
        query.holds(Coin(Party("a" * 500_000), 1))


@given(st.text("ab\n", max_size=8), st.text("ab_%\n", max_size=8))
def test_a_pattern_fits_what_its_letters_say(value: str, pattern: str) -> None:
    expression = "".join({"%": ".*", "_": "."}.get(each, re.escape(each)) for each in pattern)
    query = Query.parse({"like": [{"field": "owner", "value": pattern}]})
    assert query.holds(Coin(Party(value), 1)) is bool(re.fullmatch(expression, value, re.DOTALL))


@pytest.mark.parametrize(
    "query",
    [
        {"in": [{"field": "amount", "values": list(range(1_000))}] * 3},
        {"or": [{"or": [{"eq": [{"field": "amount", "value": 1}] * 8}] * 64}] * 64},
        {"or": [{"or": [{"or": [{}] * 64}] * 64}] * 64},
    ],
)
def test_a_query_of_too_many_comparisons_is_refused(query: dict[str, Any]) -> None:
    with pytest.raises(Rejected, match="no more than 2560 comparisons"):
        Query.parse(query)
    with pytest.raises(Rejected, match=r"query\.sort: must be a list of at most 8"):
        Query.parse({"sort": ["amount"] * 9})
    several = {"in": [{"field": "amount", "values": [1, 2]}], "or": [{"null": [{"field": "owner"}]}]}
    assert Query.parse(several).size == 3
