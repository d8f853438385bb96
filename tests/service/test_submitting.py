"""What users write is read as they mean it: functions in every form, values by name or place, keys once, ABIs once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from eth_abi.abi import encode

from rota.abi.codec import entries_of, hash_of
from rota.chain.public_transaction import PublicTransaction
from rota.domains.noto.domain import Noto
from rota.machine.effects import IntentAccepted
from rota.model.types import ContractAddress, NodeName, Party, SubmitMode
from rota.ports import KEY_BYTES_MAX, StoredSubmission
from rota.rpc.errors import Rejected
from rota.service.interface import GasOptions, Submission, TransactionType
from rota.service.submissions.reading import (
    ABIS_REMEMBERED_MAX,
    FEE_MAX_WEI,
    Submitting,
    function_name,
    named_data,
    noted,
    require_prices,
    shown_function,
)
from tests.store.kit import FIRST, Opened, an_intent, in_loop, intent_id, new_sqlite

NODE = NodeName("node1")
CONTRACT = ContractAddress("0x" + "11" * 20)
ABI: tuple[dict[str, Any], ...] = (
    {"type": "constructor", "inputs": [{"name": "symbol", "type": "string"}, {"name": "name", "type": "string"}]},
    {"type": "function", "name": "pay", "inputs": [{"name": "to", "type": "string"}, {"name": "n", "type": "uint256"}]},
    {"type": "function", "name": "pay", "inputs": [{"name": "n", "type": "uint256"}]},
    {"type": "function", "name": "stop", "inputs": []},
)
PAY, PAY_SHORT, STOP = entries_of(ABI, "abi")[1:]
PRIVATE = Submission(TransactionType.PRIVATE, "alice", to=CONTRACT, abi=ABI)


async def confirmed(_contract: ContractAddress) -> None:
    """All contracts are."""


async def submitting(folder: Path) -> tuple[Submitting, Opened]:
    opened = await Opened(new_sqlite(folder)).start(())
    return Submitting(NODE, opened.store.abis, opened.store.submissions, confirmed), opened


@in_loop
async def test_functions_and_values_are_read_in_every_form(tmp_path: Path) -> None:
    reader, opened = await submitting(tmp_path)
    call = "0x" + (PAY.selector + encode(["string", "uint256"], ["bob", 5])).hex()
    values = {"to": "bob", "n": "5"}
    forms: tuple[tuple[str, Any, Any], ...] = (
        ("pay(string,uint256)", ["bob", "5"], values),
        ("function pay(string to, uint n)", values, values),
        ("pay(string,uint256)", call, values),
        ("", call, values),
        ("stop", None, None),
    )
    for function, data, wanted in forms:
        read = await reader.read(replace(PRIVATE, function=function, data=data))
        assert read.function is not None
        assert named_data(read, read.function.inputs) == wanted
        assert function_name(read) == read.function.name
        assert shown_function(read, {}) == read.function.signature
    await opened.store.close()


@in_loop
async def test_key_that_no_index_takes_is_its_callers_error(tmp_path: Path) -> None:
    """It would end the run of a node with PostgreSQL, and quarantine the contract."""
    reader, opened = await submitting(tmp_path)
    assert reader.key_of("\U00010000" * (KEY_BYTES_MAX // 4), "alice").text
    with pytest.raises(Rejected, match=f"idempotencyKey: must be at most {KEY_BYTES_MAX} bytes"):
        reader.key_of("\U00010000" * (KEY_BYTES_MAX // 4 + 1), "alice")
    await opened.store.close()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"function": "pay"}, "function"),
        ({"function": "gone"}, "function"),
        ({"function": ""}, "function"),
        ({"abi": ({"type": "struct"},)}, "abi[0].type"),
        ({"abi": (), "abi_reference": b"\1" * 32}, "abiReference"),
    ],
)
@in_loop
async def test_what_is_not_clear_is_named(change: dict[str, Any], field: str, tmp_path: Path) -> None:
    reader, opened = await submitting(tmp_path)
    with pytest.raises(Rejected) as rejected:
        await reader.read(replace(PRIVATE, **change))
    assert rejected.value.field == field
    await opened.store.close()


@in_loop
async def test_without_an_abi_the_domain_knows_its_functions(tmp_path: Path) -> None:
    reader, opened = await submitting(tmp_path)
    read = await reader.read(replace(PRIVATE, abi=(), function="function transfer(string,uint256,bytes)", data=[1]))
    assert (function_name(read), named_data(read, ())) == ("transfer", [1])
    assert shown_function(read, Noto.functions) == "transfer(string,uint256,bytes)"
    assert shown_function(replace(read, submission=replace(read.submission, function="odd")), {}) == "odd"
    bare = await reader.read(replace(PRIVATE, abi=(), data="0x00"))
    for ask in (function_name, lambda each: named_data(each, ())):
        with pytest.raises(Rejected):
            ask(bare)
    await opened.store.close()


@in_loop
async def test_constructors_values_are_named_as_the_abi_has_them(tmp_path: Path) -> None:
    reader, opened = await submitting(tmp_path)
    read = await reader.read(replace(PRIVATE, to=None, domain="noto", data=["GLD", "Gold"]))
    assert read.function is None
    assert named_data(read, entries_of(ABI, "abi")[0].inputs) == {"symbol": "GLD", "name": "Gold"}
    await opened.store.close()


@in_loop
async def test_abi_is_written_once_and_found_by_its_hash(tmp_path: Path) -> None:
    reader, opened = await submitting(tmp_path)
    read = await reader.read(replace(PRIVATE, function="stop"))
    assert reader.unwritten(read) == read.entries
    with opened.store.submissions.accompanying(
        noted(read, intent_id(1), Party("alice@node1"), "", "stop()"), read.entries
    ):
        await opened.write(FIRST, IntentAccepted(an_intent(1)))
    reader.note_written(read)
    assert reader.unwritten(await reader.read(replace(PRIVATE, function="stop"))) == ()
    by_hash = await reader.read(replace(PRIVATE, abi=(), abi_reference=hash_of(read.entries), function="stop"))
    assert by_hash.function == STOP
    for number in range(ABIS_REMEMBERED_MAX + 1):
        other = await reader.read(replace(PRIVATE, abi=({"name": f"f{number}"},)))
        reader.note_written(other)
    assert reader.unwritten(read) == read.entries
    await opened.store.close()


@in_loop
async def test_key_of_a_public_transaction_is_known(tmp_path: Path) -> None:
    reader, opened = await submitting(tmp_path)
    await reader.require_unused(reader.key_of("k", "alice"))
    stored = StoredSubmission(
        intent_id(1), 0, True, SubmitMode.AUTO, Party("alice@node1"), idempotency_key="k", data=b"1"
    )
    wanted = PublicTransaction(0, stored.id, stored.sender, CONTRACT, None, b"", 0, 0)
    await opened.store.public.accept(stored, wanted, ())
    with pytest.raises(Rejected, match="PD012220"):
        await reader.require_unused(reader.key_of("k", "alice"))
    assert await reader.is_known(intent_id(1))
    await opened.store.close()


@in_loop
async def test_parties_of_this_node_come_with_or_without_its_name(tmp_path: Path) -> None:
    reader, opened = await submitting(tmp_path)
    assert reader.party("alice") == reader.party("alice@node1") == "alice@node1"
    for wrong in ("alice@node2", "", "a b", "@node1", "a@b@node1"):
        with pytest.raises(Rejected, match=r"^from: must be a party"):
            reader.party(wrong)
    await opened.store.close()


@pytest.mark.parametrize("name", ["fee_max_wei", "tip_wei", "gas"])
def test_price_that_no_chain_could_have_is_rejected(name: str) -> None:
    most: dict[str, Any] = {name: FEE_MAX_WEI}
    require_prices(GasOptions(**most))
    most[name] += 1
    with pytest.raises(Rejected, match="must be at most"):
        require_prices(GasOptions(**most))
