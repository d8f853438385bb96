"""Why a public call failed, as the chain tells it afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from eth_abi.abi import encode

from rota.ledger.artifacts import artifact_from_json
from rota.ledger.bindings import FailedCall
from rota.ledger.client import ClientLimits, RpcClient
from rota.ledger.failed_calls import REVERT_BYTES_MAX, Asked, Reason, reason_of
from rota.ledger.hexadecimal import data
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
