"""The settlement family: what a node is asked, and what its users read."""

from __future__ import annotations

from rota.rpc.formats import Uuid
from rota.service.interface import NamedLeg
from tests.server.kit import TRANSFER, asynchronous, served
from tests.server.memory_node import CONTRACT

CORE = "0x" + "03" * 32
OTHER = {"ledger": "0x" + "22" * 20, "cores": ["0x" + "04" * 32]}


@asynchronous
async def test_a_draft_tells_its_leg_and_has_an_opening_for_each_reader() -> None:
    async with served() as to:
        drafted = await to.call("settle_draft", TRANSFER, ["bob@node2", "carol@node3", "bob@node2"])
        assert {key: drafted[key] for key in ("ledger", "cores", "domainReceipt")} == {
            "ledger": CONTRACT,
            "cores": [CORE],
            "domainReceipt": {"data": "0x"},
        }
        assert drafted["openings"] == {name: f"0x{name.encode().hex()}" for name in ("bob@node2", "carol@node3")}
        assert "openings" not in await to.call("settle_draft", TRANSFER)
        assert (await to.call("settle_draft", {**TRANSFER, "from": "bob@node2"}))["message"] == (
            "transaction.from: must be a party of node1"
        )
        too_many = await to.call("settle_draft", TRANSFER, [f"p{n}" for n in range(33)])
        assert too_many["message"] == "readers: must be at most 32, not 33"


@asynchronous
async def test_a_draft_is_examined_bound_and_taken_away() -> None:
    async with served() as to:
        drafted = await to.call("settle_draft", TRANSFER)
        assert (await to.call("settle_examine", "0x00"))["cores"] == [CORE]
        assert await to.call("settle_leg", drafted["id"]) is None
        # What a draft answers is a leg as it stands.
        assert await to.call("settle_bind", drafted["id"], [drafted, OTHER], "once") == drafted["id"]
        legs = (NamedLeg(CONTRACT, (bytes([3]) * 32,)), NamedLeg(OTHER["ledger"], (bytes([4]) * 32,)))  # type: ignore[arg-type]
        assert to.node.bound == {Uuid(drafted["id"]).intent: (legs, "once")}
        assert await to.call("settle_leg", drafted["id"]) == {
            "ledger": CONTRACT,
            "cores": [CORE],
            "payload": "0x04",
            "auth": "0x05",
            "condition": "0x" + "06" * 32,
            "validUntil": "2025-10-09T08:53:20.000Z",
            "call": "0x07",
            "committer": CONTRACT,
        }


@asynchronous
async def test_a_binding_without_legs_is_refused() -> None:
    async with served() as to:
        drafted = await to.call("settle_draft", TRANSFER)
        assert (await to.call("settle_bind", drafted["id"], []))["message"] == "legs: must be from 1 to 32, not 0"
        empty = await to.call("settle_bind", drafted["id"], [{**OTHER, "cores": []}])
        assert empty["data"] == {"field": "legs[0].cores"}
