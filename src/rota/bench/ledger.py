"""Plain contract calls a second that a chain accepts from one account: the yardstick for whole networks.

A call writes five new slots and counts for a while, 148,000 gas in all, as much as a private transaction of a group
without rounds. All calls are signed beforehand; the clock runs from the first submission until the last call
is in a block. Three ways:

embedded        the chain in this process, called directly; a batch is one block
embedded_http   the same chain in a process of its own, over HTTP in the same batches
anvil           Anvil, over HTTP in the same batches, with blocks at an interval and a raised gas limit, its fastest
                mode; none when there is no Anvil

Anvil is `ROTA_ANVIL`, or in a checkout the one that `tools/install-test-tools` installed.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

import aiohttp

from rota.keys import secp256k1
from rota.ledger.embedded import EmbeddedChain, Settings
from rota.ledger.embedded.accounts import DEVELOPMENT_ACCOUNTS
from rota.ledger.hexadecimal import data, read_data, read_quantity
from rota.ledger.transaction import DynamicFeeTransaction, created_address, signing_hash, with_signature
from rota.localnet.chains import NO_ANVIL, find_anvil
from rota.model.digests import WORD_BYTES

CALLS_DEFAULT: Final = 3_000
BATCH: Final = 200
CALL_GAS_LIMIT: Final = 200_000
FEE_WEI: Final = 10**12  # far above any base fee that full blocks reach in this time
TIP_WEI: Final = 10**9
CHAIN_ID: Final = 31_337
ANVIL_BLOCK_TIME_S: Final = 0.25
ANVIL_GAS_LIMIT: Final = 500_000_000
START_TIMEOUT_S: Final = 30.0
RUN_TIMEOUT_S: Final = 300.0
POLL_S: Final = 0.02
STOP_TIMEOUT_S: Final = 10.0
READ_BYTES: Final = 65_536
LINES_MAX: Final = 1_000

SLOTS_PER_CALL: Final = 5
COUNTED: Final = 626

# base = calldataload(0); sstore(base + i, base + i) for each slot; then count down to 0.
_WRITES: Final = "".join(f"8060{slot:02x}018055" for slot in range(SLOTS_PER_CALL))
_COUNT_AT: Final = 2 + 6 * SLOTS_PER_CALL + 3
_CONTRACT: Final = bytes.fromhex(f"5f35{_WRITES}61{COUNTED:04x}5b600190038060{_COUNT_AT:02x}5700")
# Copies the code behind it and returns that as the contract.
_CREATION: Final = bytes.fromhex(f"60{len(_CONTRACT):02x}80600a5f395ff3fe") + _CONTRACT


@dataclass(frozen=True, slots=True)
class ChainFigures:
    """The figures of one chain."""

    calls: int
    seconds: float
    calls_per_s: float
    gas_per_call: float
    blocks: int


@dataclass(frozen=True, slots=True)
class LedgerFigures:
    """The figures of this benchmark; `anvil` is None without Anvil."""

    embedded: ChainFigures
    embedded_http: ChainFigures
    anvil: ChainFigures | None


def measure_ledger(calls: int = CALLS_DEFAULT, progress: Callable[[str], None] = lambda _: None) -> LedgerFigures:
    """Run everything; `progress` gets the name of each part before it starts."""
    progress(f"the embedded chain in this process: {calls:,} calls")
    embedded = _measure_embedded(calls)
    progress(f"the embedded chain over HTTP: {calls:,} calls in batches of {BATCH}")
    over_http = asyncio.run(_measure_embedded_http(calls))
    anvil = find_anvil()
    if anvil is None:
        progress(f"no Anvil: {NO_ANVIL}")
        return LedgerFigures(embedded, over_http, None)
    progress(f"Anvil over HTTP: {calls:,} calls in batches of {BATCH}")
    return LedgerFigures(embedded, over_http, asyncio.run(_measure_anvil(anvil, calls)))


def signed_calls(calls: int) -> list[bytes]:
    """The creation of the contract, and the calls to it, signed by the first development account."""
    account = DEVELOPMENT_ACCOUNTS[0]
    contract = created_address(account.address, 0)
    return [_signed(0, None, _CREATION)] + [
        _signed(nonce, contract, (nonce << 128).to_bytes(WORD_BYTES, "big")) for nonce in range(1, calls + 1)
    ]


def _signed(nonce: int, to: bytes | None, payload: bytes) -> bytes:
    transaction = DynamicFeeTransaction(
        chain_id=CHAIN_ID,
        nonce=nonce,
        max_priority_fee_per_gas=TIP_WEI,
        max_fee_per_gas=FEE_WEI,
        gas_limit=CALL_GAS_LIMIT,
        to=to,
        data=payload,
    )
    key = secp256k1.private_key(DEVELOPMENT_ACCOUNTS[0].secret)
    return with_signature(transaction, key.sign(signing_hash(transaction))).raw


def _measure_embedded(calls: int) -> ChainFigures:
    chain = EmbeddedChain(Settings(chain_id=CHAIN_ID), secp256k1)
    creation, *raws = signed_calls(calls)
    chain.submit(creation)
    first_block = chain.head.number + 1
    started_s = perf_counter()
    hashes: list[bytes] = []
    for batch in _batches(raws):
        with chain.together():
            hashes += [chain.submit(raw) for raw in batch]
    seconds = perf_counter() - started_s
    receipts = [chain.history.receipt(each) for each in hashes]
    assert all(receipt is not None and receipt.succeeded for receipt in receipts), "a call failed; figures mean nothing"
    gas = sum(receipt.gas_used for receipt in receipts if receipt is not None)
    return ChainFigures(calls, seconds, calls / seconds, gas / calls, chain.head.number + 1 - first_block)


async def _measure_embedded_http(calls: int) -> ChainFigures:
    arguments = ["-m", "rota", "ledger", "--port", "0", "--json"]
    chain_id = ["--chain-id", str(CHAIN_ID)]
    async with _process(sys.executable, *arguments, *chain_id, home=None, says='"url"') as line:
        return await _measure_http(json.loads(line)["url"], calls)


async def _measure_anvil(anvil: str, calls: int) -> ChainFigures:
    """Measure Anvil, with a temporary home, because it writes its history there."""
    arguments = ["--port", "0", "--chain-id", str(CHAIN_ID), "--block-time", str(ANVIL_BLOCK_TIME_S)]
    limits = ["--gas-limit", str(ANVIL_GAS_LIMIT), "--prune-history"]
    with tempfile.TemporaryDirectory() as home:
        async with _process(anvil, *arguments, *limits, home=home, says="Listening on") as line:
            address = re.search(r"Listening on (\S+)", line)
            assert address is not None, f"Anvil said {line!r}"
            return await _measure_http(f"http://{address[1]}", calls)


async def _measure_http(url: str, calls: int) -> ChainFigures:
    creation, *raws = signed_calls(calls)
    timeout = aiohttp.ClientTimeout(total=RUN_TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout) as session, asyncio.timeout(RUN_TIMEOUT_S):
        created = read_data(*await _rpc(session, url, [("eth_sendRawTransaction", data(creation))]))
        await _receipt(session, url, created)
        started_s = perf_counter()
        hashes: list[object] = []
        for batch in _batches(raws):
            hashes += await _rpc(session, url, [("eth_sendRawTransaction", data(raw)) for raw in batch])
        last = await _receipt(session, url, read_data(hashes[-1]))
        seconds = perf_counter() - started_s
        receipts: list[Any] = []
        for some in (hashes[start : start + BATCH] for start in range(0, len(hashes), BATCH)):
            receipts += await _rpc(session, url, [("eth_getTransactionReceipt", each) for each in some])
    assert all(receipt["status"] == "0x1" for receipt in receipts), "a call failed; figures mean nothing"
    gas = sum(read_quantity(receipt["gasUsed"]) for receipt in receipts)
    blocks = read_quantity(last["blockNumber"]) - read_quantity(receipts[0]["blockNumber"]) + 1
    return ChainFigures(calls, seconds, calls / seconds, gas / calls, blocks)


async def _receipt(session: aiohttp.ClientSession, url: str, transaction_hash: bytes) -> Any:  # noqa: ANN401
    """The receipt, polled until it exists; the caller limits the time."""
    while True:
        (receipt,) = await _rpc(session, url, [("eth_getTransactionReceipt", data(transaction_hash))])
        if receipt is not None:
            return receipt
        await asyncio.sleep(POLL_S)


async def _rpc(session: aiohttp.ClientSession, url: str, calls: Sequence[tuple[str, object]]) -> list[Any]:
    """The answers to a batch, in its order."""
    batch = [
        {"jsonrpc": "2.0", "id": place, "method": method, "params": [parameter]}
        for place, (method, parameter) in enumerate(calls)
    ]
    async with session.post(url, json=batch) as response:
        answers = sorted(await response.json(), key=lambda answer: int(answer["id"]))
    errors = [answer["error"] for answer in answers if "error" in answer]
    assert not errors, f"the chain refused a call: {errors[0]}"
    return [answer["result"] for answer in answers]


def _batches(raws: list[bytes]) -> list[list[bytes]]:
    return [raws[start : start + BATCH] for start in range(0, len(raws), BATCH)]


@asynccontextmanager
async def _process(programme: str, *arguments: str, home: str | None, says: str) -> AsyncIterator[str]:
    """Run a chain in a process of its own; yields the first line that it prints with `says` in it."""
    environment = dict(os.environ) if home is None else {**os.environ, "HOME": home}
    process = await asyncio.create_subprocess_exec(
        programme, *arguments, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, env=environment
    )
    assert process.stdout is not None
    try:
        line = await _line_with(process.stdout, says)
        # Anvil logs every request, and would block once the pipe is full.
        rest = asyncio.create_task(_read_away(process.stdout))
        yield line
        rest.cancel()
    finally:
        await _end(process)


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
    except TimeoutError:
        process.kill()
        await process.wait()


async def _line_with(output: asyncio.StreamReader, text: str) -> str:
    async with asyncio.timeout(START_TIMEOUT_S):
        for _ in range(LINES_MAX):
            line = (await output.readline()).decode()
            if text in line:
                return line
            if not line:
                break
    raise RuntimeError(f"the chain ended, or talked at length, without saying {text!r}")


async def _read_away(output: asyncio.StreamReader) -> None:
    while await output.read(READ_BYTES):
        pass
