"""Which locks a node offers to the trigger that cancels expired ones."""

from __future__ import annotations

from typing import cast

import pytest

from rota import host
from rota.domains.contents import Content, seal
from rota.domains.noto.records import Coin, RecordedLock
from rota.engine.contracts import KnownContracts
from rota.model.digests import state_commitment
from rota.model.types import LOCK_EXPIRY_MAX, ContractAddress, Leaf, Party, State, StateId
from rota.ports import Store
from rota.service.contracts import standing_locks
from rota.service.contracts.standing_locks import StandingLocks
from tests.domains.kit import known_by
from tests.domains.test_noto_locks import ALICE, NOTARY, TOKEN
from tests.ledger.chains import in_loop
from tests.service.test_deploying import NODE

FIRST, SECOND = ContractAddress("0x" + "f1" * 20), ContractAddress("0x" + "f2" * 20)
NOW_S = 1_000


def state(number: int, expires_at_s: int | None) -> State:
    """A lock, or a coin where it has no end."""
    record = (
        Coin(ALICE, 1)
        if expires_at_s is None
        else RecordedLock(number.to_bytes(32, "big"), ALICE, 1, ALICE, bytes(32), expires_at_s)
    )
    content = seal(Content(record, (), (NOTARY, ALICE), bytes(32)))
    return State(StateId(Leaf(number.to_bytes(32, "big")), 0), state_commitment(content), (NODE,), content)


class Stored:
    """A store that has these states of one contract."""

    def __init__(self, contract: ContractAddress, states: list[State]) -> None:
        self.contract, self.kept = contract, states
        # The leaves of this node's own intents.
        self.own: set[Leaf] = set()

    async def standing_states(
        self, contract: ContractAddress, limit: int, skip: int = 0, is_own: bool = False
    ) -> tuple[State, ...]:
        kept = [each for each in self.kept if not is_own or each.id.leaf in self.own]
        return tuple(kept[skip : skip + limit]) if contract == self.contract else ()


@in_loop
async def test_expired_locks_are_found_behind_those_that_never_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing_locks, "LOCKS_OF_CONTRACT_MAX", 2)
    contracts = KnownContracts(NODE, 1337, host.load_domains(), bytes(32))
    for address in (FIRST, SECOND):
        contracts.add(known_by("noto", TOKEN, Party("notary@node1"), address))
    ends = [LOCK_EXPIRY_MAX, LOCK_EXPIRY_MAX, NOW_S, NOW_S - 1, None]
    store = Stored(SECOND, [state(number, end_s) for number, end_s in enumerate(ends)])
    locks = StandingLocks(NODE, lambda: cast(Store, store), contracts)
    looks = [await locks.expired(NOW_S) for _ in range(4)]
    found = (SECOND, (3).to_bytes(32, "big"), NOW_S - 1)
    assert looks == [(), (found,), (), ()], "what expires now can still be spent"
    assert await locks.expired(NOW_S) == (found,)


@in_loop
async def test_node_pays_for_no_lock_that_another_one_made_in_a_token_of_its_own() -> None:
    """A stranger deploys a token, is its notary, and makes locks whose owner is a party of ours."""
    contracts = KnownContracts(NODE, 1337, host.load_domains(), bytes(32))
    contracts.add(known_by("noto", TOKEN | {"notary": "notary@node9"}, Party("notary@node9"), FIRST))
    store = Stored(FIRST, [state(number, NOW_S - 1) for number in range(3)])
    locks = StandingLocks(NODE, lambda: cast(Store, store), contracts)
    assert await locks.expired(NOW_S) == ()
    store.own = {Leaf((2).to_bytes(32, "big"))}
    assert await locks.expired(NOW_S) == ((FIRST, (2).to_bytes(32, "big"), NOW_S - 1),), "its users asked for this one"


@in_loop
async def test_notary_pays_for_a_bounded_number_of_locks_in_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing_locks, "ENDORSED_AN_HOUR_MAX", 2)
    contracts = KnownContracts(NODE, 1337, host.load_domains(), bytes(32))
    contracts.add(known_by("noto", TOKEN, Party("notary@node1"), FIRST))
    store = Stored(FIRST, [state(number, NOW_S - 1) for number in range(5)])
    locks = StandingLocks(NODE, lambda: cast(Store, store), contracts)
    first = await locks.expired(NOW_S)
    assert len(first) == 2
    assert await locks.expired(NOW_S + 60) == first, "those that were offered stay so until they end"
    del store.kept[:2]
    assert await locks.expired(NOW_S + 120) == ()
    assert len(await locks.expired(NOW_S + standing_locks.HOUR_S)) == 2
