"""Which parties are announced, and what a payer is told of them; on a store and a key store of the node's own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from rota.engine import verifiers as verifiers_module
from rota.engine.services import Services
from rota.engine.verifiers import Verifiers
from rota.machine.effects import LookUpVerifier, ReportVerifier
from rota.machine.events import VerifierLookedUp, VerifierWanted
from rota.machine.tables import Event
from rota.model.types import ContractAddress, Party, RequestId
from rota.node.events import ForContract
from rota.ports import StoredKey, Unavailable
from rota.service.submissions.announcing import Announcements
from tests.engine.test_services import World
from tests.service.test_mail import CONTRACT, NODE2
from tests.store.kit import NODE, Opened, in_loop, new_sqlite

ALICE, BOB = Party("alice@node1"), Party("bob@node2")


@in_loop
async def test_party_is_announced_by_its_own_nodes_users_alone(tmp_path: Path) -> None:
    opened = await Opened(new_sqlite(tmp_path)).start()
    store = opened.store
    announcements = Announcements(store.key_names, store.groups)
    assert not await announcements.has(ALICE)
    # A branch of the tree of names is no party.
    branch = StoredKey("org", "", "org", 0)
    leaf = StoredKey("org.carol", "org", "carol", 0, ContractAddress("0x" + "ca" * 20), "m/1")
    await store.key_names.add([branch, leaf])
    assert not await announcements.has(Party("org@node1"))
    assert await announcements.has(Party("org.carol@node1"))
    await store.key_names.add([StoredKey("alice", "", "alice", 1, ContractAddress("0x" + "a1" * 20), "m/2")])
    assert await announcements.has(ALICE)
    await store.close()
    assert await announcements.has(ALICE), "that it is announced does not change"


class Keys:
    """Every name has a key."""

    def look_up_verifier(self, order: LookUpVerifier) -> VerifierLookedUp:
        return VerifierLookedUp(order.peer, order.request_id, order.party, "0xa11ce")


@in_loop
async def test_look_up_tells_whether_a_party_is_announced_when_that_is_asked() -> None:
    told: list[Event] = []
    announced: dict[Party, bool | Exception] = {ALICE: True, Party("aclie@node1"): False}

    async def is_announced(party: Party) -> bool:
        found = announced[party]
        if isinstance(found, Exception):
            raise found
        return found

    anything: Any = World(cast(Any, None))
    services = Services(
        NODE, anything, cast(Any, Keys()), anything, anything, anything, told.append, is_announced=is_announced
    )

    async def answer(party: Party, *, asks: bool = True) -> bool | None:
        services.perform(LookUpVerifier(CONTRACT, NODE2, RequestId(1, 1), party, asks))
        while not told:
            await asyncio.sleep(0)
        event = told.pop()
        assert isinstance(event, ForContract)
        assert isinstance(event.event, VerifierLookedUp)
        assert event.event.verifier
        return event.event.announced

    assert await answer(ALICE) is True
    assert await answer(Party("aclie@node1")) is False
    assert await answer(ALICE, asks=False) is None
    announced[ALICE] = Unavailable("the store is away")
    assert await answer(ALICE) is None
    await services.close()


@in_loop
async def test_node_that_does_not_say_leaves_the_question_open(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Event] = []
    verifiers = Verifiers(told.append, patience_ms=1)
    waiting = [asyncio.ensure_future(verifiers.announced(CONTRACT, BOB)) for _ in range(2)]
    await asyncio.sleep(0)
    assert told == [ForContract(CONTRACT, VerifierWanted(BOB, asks_announced=True))] * 2
    # What a node of an older version answers, or one that does not tell, is no answer to this.
    verifiers.take(ReportVerifier(CONTRACT, BOB, "0xb0b"))
    await asyncio.sleep(0)
    assert not any(each.done() for each in waiting)
    verifiers.take(ReportVerifier(CONTRACT, BOB, "0xb0b", announced=False))
    assert await asyncio.gather(*waiting) == [False, False]
    monkeypatch.setattr(verifiers_module, "ANNOUNCED_S", 0.001)
    assert await verifiers.announced(CONTRACT, BOB) is None
    assert verifiers._announced == {}
