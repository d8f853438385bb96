"""What a coin holds is with who paid it and who got it, and nowhere else: on no disk, in no frame, not on the chain.

Four nodes, each behind a relay that keeps all bytes that pass. A tap keeps every part that a node hands to TLS and gets
of it, on both sides of each connection. Marks of one payment are then looked for everywhere. They must be found at the
two nodes that it concerns, and the search must find what is known to be there: otherwise it would find nothing ever.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from rota.domains.zeto.babyjubjub import decompress
from rota.domains.zeto.domain import KINDS, LEDGERS
from rota.domains.zeto.field import ORDER
from rota.model.types import NodeName
from rota.transport import peers as transport_peers
from rota.transport.link import Link, Stream
from rota.transport.parts import FramePart, read_part
from rota.wire.codec import Frame, decode_frame, encode_frame
from rota.wire.messages import Envelope, StateDistribution, VerifierResponse
from tests.domains.zeto.kit import (
    begun,
    lose_database,
    mint,
    pay,
    recovered,
    registered,
    token,
    transfer,
    until_balance,
)
from tests.ledger.chains import in_loop
from tests.service.callers import Caller, CallFailed, callers
from tests.service.kit import Network, network
from tests.service.test_public_flow import FREE
from tests.transport.kit import Relay

NODE1, NODE2, NODE3, NODE4 = NAMES = tuple(map(NodeName, ("node1", "node2", "node3", "node4")))
CONCERNED = (NODE2, NODE3)
# What nobody else may ever see: an amount that occurs nowhere else, and what the payer says with it.
AMOUNT = 7_231_904_585_516
MEMO = b"a word for carol alone, and for nobody else"


class Ears:
    """All that a node is told, and all that it does, in words."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def saw_event(self, event: object) -> None:
        self.said.append(repr(event))

    def saw_effect(self, effect: object) -> None:
        self.said.append(repr(effect))


class Tap:
    """Keeps the parts of all connections, by the node that wrote or read them and the peer at the other end."""

    def __init__(self) -> None:
        self.written: dict[tuple[NodeName, NodeName], list[bytes]] = defaultdict(list)
        self.read: dict[tuple[NodeName, NodeName], list[bytes]] = defaultdict(list)

    def parts(self) -> Iterator[bytes]:
        for ways in (self.written, self.read):
            for parts in ways.values():
                yield from parts

    def envelopes(self, way: list[bytes]) -> Iterator[Envelope]:
        for data in way:
            part = read_part(data)
            frame = decode_frame(part.data) if isinstance(part, FramePart) else None
            if frame is not None:
                assert isinstance(frame, Frame)
                yield from frame.envelopes


class TappedStream:
    """A `Stream` whose parts are kept, as they are handed to the network and as they come from it."""

    def __init__(self, stream: Stream, written: list[bytes], read: list[bytes]) -> None:
        self._stream = stream
        self._written = written
        self._read = read

    async def read(self) -> bytes | None:
        part = await self._stream.read()
        if part is not None:
            self._read.append(part)
        return part

    async def write(self, part: bytes) -> None:
        self._written.append(part)
        await self._stream.write(part)

    async def close(self) -> None:
        await self._stream.close()


@pytest.fixture
def tap(monkeypatch: pytest.MonkeyPatch) -> Tap:
    made = Tap()

    def tapped(peer: NodeName, stream: Stream, **more: Any) -> Link:  # noqa: ANN401  # whatever a link takes
        way = (more["events"].name, peer)
        return Link(peer, TappedStream(stream, made.written[way], made.read[way]), **more)

    monkeypatch.setattr(transport_peers, "Link", tapped)
    return made


@asynccontextmanager
async def relayed(net: Network) -> AsyncIterator[dict[NodeName, Relay]]:
    """All nodes reach each other through relays only."""
    relays: dict[NodeName, Relay] = {}
    registry = net.home / "registry.toml"
    try:
        for name in net.names:
            relays[name] = Relay(net.ports[name])
            await relays[name].start()
            registry.write_text(
                registry.read_text().replace(f'"127.0.0.1:{net.ports[name]}"', f'"127.0.0.1:{relays[name].port}"')
            )
        yield relays
    finally:
        for name in tuple(net.lives):
            await net.kill(name)
        for relay in relays.values():
            await relay.stop()


def disk_of(net: Network, node: NodeName) -> bytes:
    """All that a node has written."""
    return b"".join(path.read_bytes() for path in sorted((net.home / node).rglob("*")) if path.is_file())


async def all_on_chain(net: Network) -> bytes:
    """Every call and every event, as bytes and in words."""

    async def ask(method: str, *params: object) -> Any:  # noqa: ANN401  # whatever the chain answers
        return await net.client.call(method, *params)

    height = int(await ask("eth_blockNumber"), 16)
    blocks = [await ask("eth_getBlockByNumber", hex(number), True) for number in range(height + 1)]
    logs = await ask("eth_getLogs", {"fromBlock": "0x0", "toBlock": hex(height)})
    calls = [transaction["input"] for block in blocks for transaction in block["transactions"]]
    told = [part for log in logs for part in (*log["topics"], log["data"])]
    raw = b"".join(bytes.fromhex(text.removeprefix("0x")) for text in (*calls, *told))
    return raw + json.dumps([blocks, logs]).encode()


def number_forms(number: int) -> tuple[bytes, ...]:
    """A number in words and in bytes, from either end."""
    size = -(-number.bit_length() // 8)
    raw = number.to_bytes(size, "big")
    return str(number).encode(), raw, raw[::-1], raw.hex().encode()


def marks_of(coin: dict[str, Any]) -> dict[str, tuple[bytes, ...]]:
    """In which forms each thing that is secret of a coin could be written."""
    salt, key = (bytes.fromhex(coin[name].removeprefix("0x")) for name in ("salt", "ownerKey"))
    point = decompress(key)
    return {
        "amount": number_forms(AMOUNT),
        "salt": (salt, salt.hex().encode(), *number_forms(int.from_bytes(salt, "big") % ORDER)),
        "owner key": (key, key.hex().encode(), *number_forms(point.x), *number_forms(point.y)),
        "memo": (MEMO, MEMO.hex().encode()),
    }


def found(forms: tuple[bytes, ...], place: bytes) -> bool:
    return any(form in place for form in forms)


async def coin_at(caller: Caller, contract: str) -> dict[str, Any]:
    """The one that a node holds, as it tells its users."""
    schemas = await caller.call("pstate_listSchemas", "zeto")
    (schema,) = [each["id"] for each in schemas if "amount" in str(each)]
    (coin,) = await caller.call("pstate_queryContractStates", "zeto", contract, schema, {"limit": 9}, "all")
    content: dict[str, Any] = coin["data"]
    return content


@pytest.mark.slow
@pytest.mark.parametrize("kind", LEDGERS)
@in_loop
async def test_coin_is_in_no_place_but_those_of_who_paid_it_and_who_got_it(
    tmp_path: Path, tap: Tap, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    free = network(tmp_path, *NAMES, chain_settings=FREE)
    async with free as net, relayed(net) as relays, aiohttp.ClientSession() as session:
        heard = {name: Ears() for name in net.names}
        net.watchers.update(heard)
        with capture_logs() as logged, caplog.at_level(logging.DEBUG, logger="rota"):
            await begun(net)
            one, two, three, _ = callers(session, net)
            contract = await token(one, kind)
            await registered(one, contract, kind, b_node2=two, c_node3=three)
            await mint(one, contract, pay("b@node2", 3), pay("b@node2", AMOUNT + 1))
            await until_balance(two, contract, "b@node2", AMOUNT + 4)
            receipt = await transfer(two, contract, "b@node2", pay("c@node3", AMOUNT, MEMO))
            await until_balance(three, contract, "c@node3", AMOUNT)
            marks = marks_of(await coin_at(three, contract))
            told = await two.call("ptx_getDomainReceipt", "zeto", receipt["id"])
        (paid,) = [coin for coin in told["coins"] if coin["owner"] == "c@node3"]
        commitment = int(paid["id"], 16).to_bytes(32, "big")

        chain = await all_on_chain(net)
        assert commitment in chain, "the search finds what is there"
        assert commitment in b"".join(tap.parts())
        assert any(b"\x16\x03" in passed for relay in relays.values() for passed in relay.passed), "a handshake of TLS"
        assert not any(commitment in b"".join(relay.passed) for relay in relays.values())
        logs = json.dumps([logged, caplog.messages], default=repr).encode()
        assert contract.encode() in logs
        disks = {name: disk_of(net, name) for name in NAMES}
        words = {name: "\n".join(heard[name].said).encode() for name in NAMES}
        # Registered keys are public; which coins they own is not.
        secret = marks.keys() - ({"owner key"} if KINDS[kind].has_identities else set())
        for mark, forms in ((mark, marks[mark]) for mark in sorted(secret)):
            for name in NAMES:
                assert found(forms, disks[name]) is (name in CONCERNED), (mark, name, "disk")
                assert found(forms, words[name]) is (name in CONCERNED), (mark, name, "words")
                assert not found(forms, b"".join(relays[name].passed)), (mark, name, "packets")
            assert not found(forms, chain), mark
            assert not found(forms, logs), mark
            assert not found(forms, b"".join(frames_but_for_keys(tap))), mark
        # Who pays asks the owner's node for the key, and is told.
        ways = {
            way
            for ways in (tap.written, tap.read)
            for way, parts in ways.items()
            if found(marks["owner key"], b"".join(parts))
        }
        assert ways == {(NODE2, NODE3), (NODE3, NODE2)}


def frames_but_for_keys(tap: Tap) -> Iterator[bytes]:
    """All that nodes said to each other, but for what tells the key of a party by its name."""
    for ways in (tap.written, tap.read):
        for parts in ways.values():
            for envelope in tap.envelopes(parts):
                if not isinstance(envelope.body, VerifierResponse):
                    yield encode_frame((envelope,))


@pytest.mark.slow
@in_loop
async def test_owner_that_lost_its_database_is_sent_its_coins_again_and_encrypted(tmp_path: Path, tap: Tap) -> None:
    async with network(tmp_path, NODE1, NODE2, NODE3) as net, aiohttp.ClientSession() as session:
        await begun(net)
        one, two, three = callers(session, net)
        contract = await token(one)
        # One coin of the issuer, and one of somebody whom no contract names.
        await mint(one, contract, pay("b@node2", AMOUNT, MEMO), pay("c@node3", 5))
        await until_balance(two, contract, "b@node2", AMOUNT)
        await transfer(two, contract, "b@node2", pay("c@node3", AMOUNT, MEMO))
        await until_balance(three, contract, "c@node3", AMOUNT + 5)
        await lose_database(net, NODE3)
        said = len(tap.written[(NODE2, NODE3)])
        await net.start(NODE3)
        await recovered(net, session, contract, "c@node3", AMOUNT + 5)
        again = list(tap.envelopes(tap.written[(NODE2, NODE3)][said:]))
        assert any(isinstance(envelope.body, StateDistribution) for envelope in again)
        for forms in (number_forms(AMOUNT), (MEMO, MEMO.hex().encode())):
            assert found(forms, disk_of(net, NODE3))
            assert not found(forms, b"".join(tap.parts()))


@pytest.mark.slow
@in_loop
async def test_draft_is_opened_by_the_node_of_its_reader_alone(tmp_path: Path) -> None:
    async with network(tmp_path, NODE1, NODE2, NODE3) as net, aiohttp.ClientSession() as session:
        await begun(net)
        one, two, three = callers(session, net)
        contract = await token(one)
        await mint(one, contract, pay("b@node2", AMOUNT))
        await until_balance(two, contract, "b@node2", AMOUNT)
        of_token = {"type": "private", "to": contract}
        lock = {"amount": AMOUNT, "delegate": "0x" + "5e" * 20}
        locked = await two.succeed(**of_token, from_="b@node2", function="lock", data=lock)
        await until_balance(two, contract, "b@node2", 0)
        (coin,) = (await two.call("ptx_getDomainReceipt", "zeto", locked["id"]))["coins"]
        spends = {"lockedInputs": [coin["id"]], "delegate": "", "transfers": [pay("c@node3", AMOUNT, MEMO)]}
        wanted = {**of_token, "from": "b@node2", "function": "transferLocked", "data": spends}
        draft = await two.call("settle_draft", wanted, ["c@node3"])
        opening = draft["openings"]["c@node3"]
        for forms in (number_forms(AMOUNT), (MEMO,)):
            assert not found(forms, bytes.fromhex(opening.removeprefix("0x")))
        shown = await three.call("settle_examine", opening)
        assert shown["cores"] == draft["cores"]
        assert [each["amount"] for each in shown["domainReceipt"]["coins"]] == [str(AMOUNT)]
        with pytest.raises(CallFailed, match="the party is not one of node1"):
            await one.call("settle_examine", opening)
