"""`rota consent` at a node in memory behind the real entrance."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from uuid import UUID

from click.testing import Result

from rota.model.types import ContractAddress, IntentId, NodeName
from tests.cli.kit import rota
from tests.server.kit import Served, asynchronous, served
from tests.server.memory_node import QUESTION, MemoryConsents, MemoryNode

FIRST, SECOND = QUESTION.deployment, IntentId(b"\x01" * 16)
ON_CHAIN = replace(
    QUESTION,
    deployment=SECOND,
    contract=ContractAddress("0x" + "cc" * 20),
    is_endorser=False,
    members=(),
    member_count=0,
)


async def typed(to: Served, *arguments: object) -> Result:
    return await asyncio.to_thread(lambda: rota("consent", *arguments, ROTA_NODE=to.entrance.http_url))


@asynchronous
async def test_pending_consents_are_listed() -> None:
    consents = MemoryConsents([QUESTION, ON_CHAIN])
    async with served(MemoryNode(consents=consents)) as to:
        shown = await typed(to, "list")
        assert (shown.exit_code, shown.stderr) == (0, "")
        assert shown.stdout == (
            f"{UUID(bytes=FIRST)}  pente, proposed by node2\n"
            "  this node would endorse and coordinate; 2 of 2 endorsers sign: node1, node2\n"
            "  members: a@node1, b@node2 and 1 more\n"
            "  sequencing: mode ring, rotation sticky, ranges of 100 blocks\n"
            "  asked 2023-11-14T22:13:20.000Z, expires 2023-11-21T22:13:20.000Z\n"
            f"{UUID(bytes=SECOND)}  pente, proposed by node2 at 0x{'cc' * 20}, on the chain already\n"
            "  this node would coordinate; 2 of 2 endorsers sign: node1, node2\n"
            "  members: none\n"
            "  sequencing: mode ring, rotation sticky, ranges of 100 blocks\n"
            "  asked 2023-11-14T22:13:20.000Z, expires 2023-11-21T22:13:20.000Z\n"
        )
        (found, _) = json.loads((await typed(to, "list", "--json")).stdout)
        assert (found["proposer"], found["parts"], found["memberCount"]) == ("node2", ["endorse", "coordinate"], 3)
        consents.open.clear()
        assert (await typed(to, "list")).stdout == "Nothing waits for consent.\n"


@asynchronous
async def test_operator_accepts_and_refuses() -> None:
    consents = MemoryConsents([QUESTION, ON_CHAIN])
    async with served(MemoryNode(consents=consents)) as to:
        accepted = await typed(to, "accept", UUID(bytes=FIRST))
        assert accepted.stdout == f"The node takes part in {UUID(bytes=FIRST)} of node2.\n"
        refused = await typed(to, "refuse", UUID(bytes=SECOND), "--reason", "no", "--from", "node2", "--json")
        assert json.loads(refused.stdout)["accepted"] is False
        assert consents.decided == [("node2", FIRST, None), ("node2", SECOND, "no")]
        assert (await typed(to, "refuse", UUID(bytes=FIRST), "--reason", "x" * 501)).exit_code == 1


@asynchronous
async def test_proposer_is_named_where_several_proposed_one_id() -> None:
    other = replace(QUESTION, proposer=NodeName("node3"))
    async with served(MemoryNode(consents=MemoryConsents([QUESTION, other]))) as to:
        several = await typed(to, "accept", UUID(bytes=FIRST))
        assert (several.exit_code, "node2, node3 proposed it; choose one with --from" in several.stderr) == (1, True)
        assert (await typed(to, "accept", UUID(bytes=FIRST), "--from", "node3")).exit_code == 0
        unknown = await typed(to, "accept", UUID(bytes=SECOND))
        assert (unknown.exit_code, "is not asked about it" in unknown.stderr) == (1, True)
        wrong = await typed(to, "accept", UUID(bytes=FIRST), "--from", "node4")
        assert (wrong.exit_code, "is not asked about it" in wrong.stderr) == (1, True)
