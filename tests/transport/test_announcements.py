"""A hello says how its author takes part in automation; what is too much of it is left out."""

from __future__ import annotations

import pytest

from rota.model.types import NodeName
from rota.transport import Announcement
from rota.transport.endings import Refused
from rota.transport.handshake import require_announcement
from rota.transport.parts import LIFE_BYTES, RANKED_TRIGGERS_MAX, Hello, hello_bytes, read_part
from tests.transport.kit import network, play

ACCOUNT = bytes(range(20))


def read(announcement: Announcement) -> Announcement:
    hello = Hello(NodeName("a"), NodeName("b"), bytes(LIFE_BYTES), announcement=announcement)
    found = read_part(hello_bytes(hello))
    assert isinstance(found, Hello)
    return found.announcement


def test_an_announcement_travels_in_the_hello() -> None:
    assert read(Announcement(ACCOUNT, ("one", "two"))) == Announcement(ACCOUNT, ("one", "two"))
    assert read(Announcement()) == Announcement()


def test_too_many_or_too_long_names_are_left_out() -> None:
    names = tuple(f"t{number}" for number in range(RANKED_TRIGGERS_MAX + 5))
    assert read(Announcement(b"", ("x" * 64, *names))).ranked_triggers == names[:RANKED_TRIGGERS_MAX]


def test_a_name_that_cannot_be_stored_or_shown_is_left_out() -> None:
    """A NUL in it once held up every write of automation on PostgreSQL, for ever."""
    assert read(Announcement(b"", ("one\0", "two", "th\nree"))).ranked_triggers == ("two",)


def test_what_a_peer_announced_is_known_also_when_it_is_gone() -> None:
    async def story() -> None:
        async with network("node1", "node2") as made:
            one = made["node1"]
            assert one.peers.announcements() == {NodeName("node2"): Announcement()}
            await made["node2"].stop()
            await one.until_lost("node2")
            assert one.peers.announcements() == {NodeName("node2"): Announcement()}

    play(story)


@pytest.mark.parametrize("size", [1, 19, 21, 4_000_000])
def test_account_that_is_no_address_is_refused(size: int) -> None:
    with pytest.raises(Refused, match="automation account"):
        require_announcement(Announcement(bytes(size)))


@pytest.mark.parametrize("size", [0, 20])
def test_account_that_is_an_address_or_absent_is_taken(size: int) -> None:
    require_announcement(Announcement(bytes(size)))
