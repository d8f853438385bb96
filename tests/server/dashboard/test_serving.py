"""How the page is served, whose pages are welcome, and what a node tells of itself and of rings."""

from __future__ import annotations

import base64
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import aiohttp
import pytest

from rota.keys.secret import Secret
from rota.model.types import Contract, ContractAddress, Mode, NodeName
from rota.rpc.credentials import Role, make_token
from rota.sequencer.selection import rank_by_distance, ring_place
from rota.server.configuration import LedgerSection, NodeConfiguration, NodeSection, PostgresServer, StoreSection
from rota.server.dashboard import CONTENT_TYPES, POLICY, policy_for, read_pages
from rota.server.entrance import LIVE_PATH
from rota.server.itself import Itself
from rota.service.explain.rings import RANGES_SHOWN, ring_of
from tests.server.dashboard.kit import ScriptedNode, served_dashboard
from tests.server.kit import asynchronous

NAMES: Final = tuple(NodeName(f"node{number}") for number in range(1, 4))
ADDRESS: Final = ContractAddress("0x" + "ab" * 20)
QUESTION: Final = {"jsonrpc": "2.0", "id": 1, "method": "transport_nodeName"}


@asynchronous
async def test_pages_come_with_a_policy_and_are_not_sent_twice() -> None:
    async with served_dashboard(ScriptedNode()) as entrance, aiohttp.ClientSession() as session:
        for name in read_pages():
            async with session.get(f"{entrance.http_url}/dashboard/{name}") as answer:
                assert answer.status == 200
                assert answer.headers["Content-Type"] == CONTENT_TYPES[name.rpartition(".")[2]]
                host = entrance.http_url.removeprefix("http://")
                assert answer.headers["Content-Security-Policy"] == f"{POLICY} ws://{host} wss://{host}"
                digest = answer.headers["ETag"]
            again = {"If-None-Match": digest}
            async with session.get(f"{entrance.http_url}/dashboard/{name}", headers=again) as answer:
                assert answer.status == 304
        async with session.get(f"{entrance.http_url}/dashboard") as answer:
            assert str(answer.url).endswith("/dashboard/")
            assert "text/html" in answer.headers["Content-Type"]
        for name in ("nothing.js", "__init__.py", "..%2f__init__.py"):
            async with session.get(f"{entrance.http_url}/dashboard/{name}") as answer:
                assert answer.status == 404


def test_a_host_that_is_no_place_does_not_get_into_the_policy() -> None:
    assert policy_for("[::1]:31548") == f"{POLICY} ws://[::1]:31548 wss://[::1]:31548"
    for host in ("", "a b", "x; script-src *", "x,y", "x\n"):
        assert policy_for(host) == POLICY


def test_pages_load_nothing_from_elsewhere_and_have_nothing_inline() -> None:
    pages = {name: page.content.decode() for name, page in read_pages().items()}
    document = pages["index.html"]
    assert "'unsafe-" not in POLICY
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon[a-z]+=", document) == []
    for name, text in pages.items():
        away = re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s\"')]*", text)
        assert [each for each in away if "www.w3.org" not in each] == [], name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text), name
    for name in re.findall(r'(?:href|src)="([a-z_]+\.[a-z]+)"|from "\./([a-z_]+\.js)"', "".join(pages.values())):
        assert (name[0] or name[1]) in pages


@asynchronous
async def test_the_nodes_own_page_is_welcome_at_an_address_and_a_strangers_name_is_not() -> None:
    async with served_dashboard(ScriptedNode()) as entrance, aiohttp.ClientSession() as session:
        host = entrance.http_url.removeprefix("http://")
        port = host.rpartition(":")[2]
        for origin, shown, status in (
            (f"http://{host}", host, 200),
            (f"http://localhost:{port}", f"localhost:{port}", 200),
            # A stranger who lets his name point here has both alike.
            (f"http://stranger.example:{port}", f"stranger.example:{port}", 403),
            ("http://127.0.0.1:1", host, 403),
            ("null", host, 403),
        ):
            headers = {"Origin": origin, "Host": shown}
            async with session.post(entrance.http_url, json=QUESTION, headers=headers) as answer:
                assert answer.status == status, origin
    _, credential = make_token("viewer", frozenset({Role.READ}))
    async with served_dashboard(ScriptedNode(), (credential,)) as entrance, aiohttp.ClientSession() as session:
        headers = {"Origin": "https://rota.example", "Host": "rota.example"}
        # The page is welcome; its caller has to show credentials.
        async with session.post(entrance.http_url, json=QUESTION, headers=headers) as answer:
            assert answer.status == 401


@asynchronous
async def test_credentials_are_taken_as_a_subprotocol() -> None:
    token, credential = make_token("viewer", frozenset({Role.READ}))
    async with AsyncExitStack() as stack:
        entrance = await stack.enter_async_context(served_dashboard(ScriptedNode(), (credential,)))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        url = entrance.http_url + LIVE_PATH
        socket = await stack.enter_async_context(
            session.ws_connect(url, protocols=("rota.v1", offered(f"Bearer {token}")))
        )
        assert socket.protocol == "rota.v1"
        await socket.send_json(QUESTION)
        assert (await socket.receive_json())["result"] == "node1"
        for wrong in (offered("Bearer other"), "rota.authorization.%%%", "rota.v1"):
            with pytest.raises(aiohttp.WSServerHandshakeError, match="401"):
                await session.ws_connect(url, protocols=(wrong,))


def offered(header: str) -> str:
    return "rota.authorization." + base64.urlsafe_b64encode(header.encode()).decode().rstrip("=")


def test_a_ring_shows_the_places_that_decide_the_ranking() -> None:
    contract = Contract(ADDRESS, NAMES, NAMES, 2, mode=Mode.RING, range_size=100, virtual_nodes=64)
    ring = ring_of(contract, 250)
    assert [each.number for each in ring.ranges] == list(range(2, 2 + RANGES_SHOWN))
    assert [each.first_height for each in ring.ranges[:2]] == [200, 300]
    for each in ring.ranges:
        wanted = rank_by_distance(NAMES, ring_place(f"{ADDRESS}/{each.number}"), 64)
        assert tuple(member.node for member in each.members) == wanted
        distances = [member.distance for member in each.members]
        assert distances == sorted(distances)
        assert all(0 <= member.place < 1 for member in each.members)
    assert {each.node for each in ring.places} == set(NAMES)


def test_a_contract_without_a_ring_shows_none() -> None:
    ring = ring_of(Contract(ADDRESS, NAMES[:1], NAMES[:1], 1, mode=Mode.STATIC), 250)
    assert (ring.places, ring.ranges) == ((), ())


def test_settings_are_shown_without_what_could_be_a_secret() -> None:
    configuration = NodeConfiguration(
        node=NodeSection(name=NAMES[0], keys=Path("keys"), password=Secret("hunter2")),
        ledger=LedgerSection(url="https://user:pass@ledger.example/v3/apikey123?key=topsecret", chain_id=1),
        store=StoreSection(
            url=PostgresServer("postgresql://dbuser@db.example:5432/rota?options=hidden"), password=Secret("hunter3")
        ),
        domains={"noto": {"token": "domainsecret"}},
    )
    itself = Itself(None, configuration, 0)  # type: ignore[arg-type]  # its settings need no running node
    shown = {each.path: each for each in itself.settings()}
    assert shown["ledger.url"].value == "https://ledger.example/…"
    assert shown["store.url"].value == "postgresql://db.example:5432/rota"
    assert shown["ledger.chain_id"].value == "1"
    assert shown["sequencer.heartbeat_ms"].is_default
    assert shown["domains.noto"].value == "…"
    everything = " ".join(f"{each.path} {each.value}" for each in shown.values())
    for secret in ("hunter", "pass@", "apikey", "topsecret", "dbuser", "hidden", "domainsecret"):
        assert secret not in everything
    assert itself.memory_bytes() > 1_000_000
