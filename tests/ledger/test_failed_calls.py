"""Why a public call failed, as the chain tells it afterwards."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest
from eth_abi.abi import encode

from rota.ledger import failed_calls as failed_calls_module
from rota.ledger.artifacts import artifact_from_json
from rota.ledger.bindings import FailedCall
from rota.ledger.call_gas import MORE_GAS
from rota.ledger.client import Call as RpcCall
from rota.ledger.client import ClientLimits, RpcClient, Together
from rota.ledger.failed_calls import REVERT_BYTES_MAX, Asked, Reason, reason_of, reasons_of
from rota.ledger.hexadecimal import data
from rota.ledger.transports import RpcFailure
from rota.model.digests import keccak
from rota.model.types import Call, CallVerdict, ContractAddress, Leaf
from tests.ledger.chains import in_loop, running
from tests.ledger.participant import DEPLOYER, send

ARTIFACTS = Path(__file__).parents[1] / "contracts" / "artifacts"
NOBODY = ContractAddress("0x" + "ab" * 20)
GAS = 100_000
HONEST, SILENT, DECLINING = range(3)
OUT_OF_GAS = "it ran out of gas, and would succeed with more: it needs about"


def failing_with(reason: bytes) -> bytes:
    return keccak(b"failWith(bytes)")[:4] + encode(["bytes"], [reason])


@pytest.mark.parametrize("kind", ["embedded", pytest.param("anvil", marks=pytest.mark.slow)])
@in_loop
async def test_the_chain_tells_why_a_call_fails(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain:
        bytecode = artifact_from_json((ARTIFACTS / "Target.json").read_text(encoding="utf-8")).bytecode
        target, ledger = [(await send(chain, {"from": DEPLOYER, "data": data(bytecode)})).contract for _ in range(2)]
        assert target is not None
        assert ledger is not None
        height = int(str(await chain.rpc("eth_blockNumber")), 16)
        client = RpcClient(chain.url, ClientLimits(backoff_ms=1))

        verdicts: list[tuple[CallVerdict, bytes]] = []

        async def told(content: bytes, to: ContractAddress = target, gas: int = GAS, number: int = 0) -> str:
            # A ledger is a contract, and asks as one.
            failed = FailedCall(ledger, Leaf(bytes(32)), number, Call(to, gas, content))
            reason = await reason_of(client, Asked(failed, height))
            verdicts.append((reason.verdict, reason.revert))
            return reason.text

        try:
            text = keccak(b"Error(string)")[:4] + encode(["string"], ["not today"])
            assert await told(failing_with(text)) == "not today"
            assert await told(keccak(b"fail()")[:4]) == f"reverted with 0x{keccak(b'Refused()')[:4].hex()}"
            assert await told(failing_with(keccak(b"Reentered()")[:4])) == "Reentered()"
            long = await told(failing_with(b"\x07" * (REVERT_BYTES_MAX + 1)))
            assert long == f"reverted with 1025 bytes that begin with 0x{'07' * REVERT_BYTES_MAX}"
            assert await told(keccak(b"touch()")[:4], NOBODY) == "there is no contract"
            assert await told(keccak(b"touch()")[:4]) == f"it would succeed after block {height}"
            assert "gas" in (await told(keccak(b"burn()")[:4])).lower()
            height += 1_000_000
            assert await told(keccak(b"fail()")[:4]) != ""
            refused, unknown = CallVerdict.REFUSED, CallVerdict.UNKNOWN
            assert [verdict for verdict, _ in verdicts] == [
                *[refused] * 4,
                CallVerdict.NO_CONTRACT,
                CallVerdict.SUCCEEDS,
                unknown,
                unknown,
            ]
            assert verdicts[0][1] == text
            assert verdicts[3][1] == b"\x07" * REVERT_BYTES_MAX
            # One that follows others may have needed them.
            height -= 1_000_000
            short = await told(keccak(b"touch()")[:4], gas=5_000)
            assert (short.rpartition(" ")[0], verdicts[-1][0]) == (OUT_OF_GAS, CallVerdict.SUCCEEDS)
            needed = int(short.rpartition(" ")[2])
            assert 5_000 < needed < GAS
            assert (await told(keccak(b"touch()")[:4], gas=needed + 1_000)).startswith("it would succeed after block")
            assert (await told(keccak(b"absent()")[:4])).startswith("it reverts without a reason: the target may have")
            assert await told(failing_with(text), number=1) == "not today"
            assert await told(keccak(b"touch()")[:4], NOBODY, number=1) == "there is no contract"
            assert [verdict for verdict, _ in verdicts[-2:]] == [unknown, unknown]
        finally:
            await client.close()


@in_loop
async def test_what_moves_tokens_fails_though_the_token_succeeds(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain:
        bytecode = artifact_from_json((ARTIFACTS / "TestToken.json").read_text(encoding="utf-8")).bytecode
        token, ledger = [(await send(chain, {"from": DEPLOYER, "data": data(bytecode)})).contract for _ in range(2)]
        assert token is not None
        assert ledger is not None
        client = RpcClient(chain.url, ClientLimits(backoff_ms=1))
        call = Call(token, GAS, keccak(b"transfer(address,uint256)")[:4] + encode(["address", "uint256"], [NOBODY, 5]))

        async def told(ways: int, is_move: bool = True) -> str:
            behave = keccak(b"behave(uint8)")[:4] + encode(["uint8"], [ways])
            await send(chain, {"to": token, "data": data(behave)})
            height = int(str(await chain.rpc("eth_blockNumber")), 16)
            asked = Asked(FailedCall(ledger, Leaf(bytes(32)), 0, call), height, is_move)
            return (await reason_of(client, asked)).text

        try:
            assert (await told(HONEST)).startswith("reverted with 0xe450d38c"), "it has nothing"
            await send(
                chain,
                {
                    "to": token,
                    "data": data(keccak(b"mint(address,uint256)")[:4] + encode(["address", "uint256"], [ledger, 9])),
                },
            )
            for ways in (HONEST, SILENT):
                assert "must move exactly what is said, and be the contract's own ERC-20" in await told(ways)
            assert await told(DECLINING) == "it answers that it is not done"
            assert (await told(DECLINING, is_move=False)).startswith("it would succeed after block")
        finally:
            await client.close()


class Burning:
    """An Ethereum node on which a target fails with the gas that it had, and uses up all that it is given."""

    def __init__(self, is_slow: bool) -> None:
        self.is_slow = is_slow
        self.given: list[int] = []
        self.estimates: list[int] = []

    async def call_together(self, *calls: RpcCall, attempts_max: int) -> Together:
        assert attempts_max == 1
        _, wanted, more = calls
        self.given += [int(each.parameters[0]["gas"], 16) for each in (wanted, more)]  # type: ignore[index]
        if self.is_slow and len(self.given) > 2:
            await asyncio.Event().wait()
        return Together(("0x00", RpcFailure(3, "execution reverted"), "0x"), is_one_exchange=True)

    async def call(self, method: str, wanted: dict[str, str], attempts_max: int) -> str:
        assert (method, attempts_max) == ("eth_estimateGas", 1)
        self.estimates.append(int(wanted["gas"], 16))
        return hex(120_000)


def failed_calls(count: int) -> list[Asked]:
    calls = (FailedCall(NOBODY, Leaf(bytes(32)), 0, Call(NOBODY, GAS, bytes([number]))) for number in range(count))
    return [Asked(call, 1) for call in calls]


@in_loop
async def test_target_that_uses_up_what_it_is_given_gets_little_more_than_was_paid_for_and_is_estimated_once() -> None:
    node = Burning(is_slow=False)
    reasons = await reasons_of(cast(RpcClient, node), failed_calls(3))
    assert max(node.given) < GAS + MORE_GAS + 30_000
    assert len(node.estimates) == 1
    assert node.estimates[0] < GAS + MORE_GAS + 30_000
    assert [reason.verdict for reason in reasons] == [CallVerdict.SUCCEEDS] * 3
    assert [OUT_OF_GAS in reason.text for reason in reasons] == [True, False, False]
    assert await reasons_of(cast(RpcClient, node), ()) == []


@in_loop
async def test_index_does_not_wait_for_reasons_that_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failed_calls_module, "REASONS_S", 0.01)
    reasons = await reasons_of(cast(RpcClient, Burning(is_slow=True)), failed_calls(2))
    assert [reason.verdict for reason in reasons] == [CallVerdict.SUCCEEDS, CallVerdict.UNKNOWN]


@in_loop
async def test_a_chain_that_is_away_tells_nothing(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain:
        client = RpcClient(chain.url, ClientLimits(backoff_ms=1, timeout_ms=100))
    failed = FailedCall(NOBODY, Leaf(bytes(32)), 0, Call(NOBODY, GAS, b""))
    assert await reason_of(client, Asked(failed, 1)) == Reason("", CallVerdict.UNKNOWN)
    await client.close()


def test_a_failed_call_is_named_by_its_number_its_selector_and_its_target() -> None:
    named = FailedCall(NOBODY, Leaf(bytes(32)), 2, Call(NOBODY, GAS, bytes.fromhex("a9059cbb00")))
    assert named.text == f"call 2 failed: 0xa9059cbb of {NOBODY} with {GAS} gas"
    bare = FailedCall(NOBODY, Leaf(bytes(32)), 0, Call(NOBODY, GAS, b""))
    assert bare.text == f"call 0 failed: no data of {NOBODY} with {GAS} gas"
