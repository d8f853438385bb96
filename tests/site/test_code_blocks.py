"""Every block of code in the documents is what it says: Python runs, commands are known, settings are accepted.

A block that cannot run says why in a comment above it, `<!-- not run: ... -->`; it must at least be read. What a block
takes for granted, because the page does, is in `GIVEN`: it is run first, and is as real.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rota.localnet.local import LocalNetwork, Plan
from rota.model.types import NodeName
from rota.server.configuration import read_text
from rota.server.credentials_file import credentials_of
from rota.transport.registry import read_registry
from tests.command_lines import flaws_of, rota_commands, simple_commands
from tools.site.markdown import Block, blocks_of
from tools.site.staging import pages_of

ROOT = Path(__file__).parents[2]
# Where `rota demo --serve` has its nodes, which the pages take for granted.
NODE_URLS = {NodeName(f"node{number}"): f"http://127.0.0.1:31{number + 4}48" for number in (1, 2, 3)}
NOT_RUN = re.compile(r"not run: \S.+")
LANGUAGES = {"console", "ini", "json", "mermaid", "python", "sh", "solidity", "text", "toml", "yaml"}
# Run as a whole by tests/domains/test_tutorial.py, under faults.
TUTORIAL = ROOT / "docs" / "domains.md"
NAME = 'node = {name = "node1"}\nledger = {url = "http://127.0.0.1:8545", chain_id = 1337, registry = "0x%s"}\n' % (
    "a" * 40
)

GIVEN = {
    "docs/architecture.md": """
from rota.sequencer.coordinator import *
from rota.machine.events import Tick
from rota.sequencer.events import LedgerLost
from rota.sequencer.coordinator_events import HandoverReceived
from tests.node.node_bench import NodeBench
node, now_ms, event = NodeBench().node, 1, Tick()
""",
    "docs/automation.md": "from rota.automation.triggers import Call, Read, Trigger",
    "docs/ledger.md": "from tests.ledger.embedded.client import payment, signed\nraw = signed(payment(0))",
    "docs/wire.md": """
from rota.wire.messages import Startup
from rota.wire import decode_frame, encode_frame
from rota.wire.limits import DEFAULT_LIMITS as limits
from tests.wire.samples import full_envelope
envelopes = (full_envelope(Startup),)
""",
}
AFTER = {
    "docs/architecture.md": "assert isinstance(effects, list | tuple)",
    "docs/ledger.md": "await server.stop()\nassert chain.head.number == 1",
    "docs/wire.md": "assert result.envelopes == envelopes",
}


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def all_blocks() -> Iterator[Block]:
    for page in pages_of(ROOT):
        yield from blocks_of(page)


def blocks_in(*languages: str) -> list[Any]:
    return [
        pytest.param(block, id=f"{name_of(block.page)}:{block.line}")
        for block in all_blocks()
        if block.language in languages
    ]


def is_run(block: Block) -> bool:
    return NOT_RUN.fullmatch(block.comment) is None


def test_every_block_says_its_language() -> None:
    assert [f"{name_of(b.page)}:{b.line}: {b.language!r}" for b in all_blocks() if b.language not in LANGUAGES] == []


def test_there_are_blocks_of_each_kind_that_is_judged_here() -> None:
    assert {"json", "python", "sh", "toml"} <= {block.language for block in all_blocks()}


@pytest.mark.parametrize("block", blocks_in("sh", "console"))
def test_every_command_of_rota_is_one_that_it_has(block: Block) -> None:
    assert [flaw for arguments in rota_commands(block.text) for flaw in flaws_of(arguments)] == []


def test_every_make_target_that_is_shown_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    there = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    shown = {
        word
        for block in all_blocks()
        if block.language in ("sh", "console")
        for words in simple_commands(block.text)
        if words[:1] == ["make"]
        for word in words[1:]
        if "=" not in word
    }
    assert shown
    assert shown - there == set()


@pytest.mark.parametrize("block", blocks_in("json"))
def test_json_is_json(block: Block) -> None:
    assert json.loads(block.text) is not None


@pytest.mark.parametrize("block", blocks_in("toml"))
def test_settings_are_accepted_by_what_reads_them(block: Block, tmp_path: Path) -> None:
    content = tomllib.loads(block.text)
    if "credential" in content:
        assert credentials_of(content)
    elif "nodes" in content:
        file = tmp_path / "nodes.toml"
        file.write_text(block.text, encoding="utf-8")
        assert read_registry(file)
    elif "project" in content:
        assert set(content["project"]) <= {"dependencies", "entry-points", "name", "version", "requires-python"}
        assert "rota.domains" in content["project"]["entry-points"]
    else:
        text = block.text if "node" in content else NAME + block.text
        assert read_text(tmp_path / "config.toml", text, {}).node.name


# Python.


def pages_with_python() -> list[Any]:
    pages = dict.fromkeys(b.page for b in all_blocks() if b.language == "python" and b.page != TUTORIAL)
    return [pytest.param(page, id=name_of(page)) for page in pages if not needs_a_node(page)]


def python_of(page: Path) -> list[Block]:
    return [block for block in blocks_of(page) if block.language == "python"]


def needs_a_node(page: Path) -> bool:
    return any(url in block.text for block in python_of(page) if is_run(block) for url in NODE_URLS.values())


async def run(text: str, names: dict[str, Any], where: str) -> None:
    """As a page is read: from above, with `await` wherever it stands; without any, where no event loop runs yet."""
    code = compile(text, where, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:
        await eval(code, names)
    else:
        await asyncio.to_thread(exec, code, names)


async def run_page(page: Path, names: dict[str, Any], replaced: Mapping[str, str]) -> None:
    name = name_of(page)
    await run(GIVEN.get(name, ""), names, f"what {name} takes for granted")
    for block in python_of(page):
        if is_run(block):
            text = block.text
            for printed, real in replaced.items():
                text = text.replace(printed, real)
            # Lines of the page, so that a traceback names them.
            await run("\n" * block.line + text, names, str(page))
        else:
            ast.parse(block.text)
    await run(AFTER.get(name, ""), names, f"what follows from {name}")


@pytest.mark.parametrize("page", pages_with_python())
def test_python_runs_as_it_is_printed(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asyncio.run(run_page(page, {"__name__": "__main__"}, {}))


@pytest.mark.slow
def test_python_that_asks_nodes_runs_against_real_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pages = [page for page in pages_of(ROOT) if needs_a_node(page)]
    assert pages

    async def against_nodes() -> None:
        async with LocalNetwork(Plan(home=tmp_path / "network", names=tuple(NODE_URLS))) as network:
            await network.start(*NODE_URLS)
            made = await network.create_contract("noto", {"notary": "bank@node1", "notaryMode": "basic"})
            client = network.nodes[NodeName("node1")].client
            minting = {"to": "alice@node1", "amount": 100, "data": "0x"}
            await (await client.send(made.address, "mint", minting, sender="bank"))
            transfer = {"to": "carol@node1", "amount": 1, "data": "0x"}
            transaction = {
                "type": "private",
                "from": "alice",
                "to": made.address,
                "function": "transfer",
                "data": transfer,
            }
            replaced = {url: network.nodes[name].client.url for name, url in NODE_URLS.items()}
            for page in pages:
                names = {"__name__": "__main__", "Path": Path, "token": made.address, "transaction": transaction}
                await run_page(page, names, replaced)

    asyncio.run(against_nodes())
