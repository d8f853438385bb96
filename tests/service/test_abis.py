"""ABIs are kept, and bytes are told by them as clients expect it."""

from __future__ import annotations

from typing import Any

import pytest
from eth_abi.abi import encode

from rota.abi.codec import TEXT_ERROR, entries_of
from rota.domains.zeto.babyjubjub import ZERO, decompress
from rota.model.digests import keccak
from rota.service.keys.verifiers import BABYJUBJUB, COMPRESSED_0X, PUBLIC_KEY, PUBLIC_KEY_0X, SECP256K1
from tests.server.kit import asynchronous, served
from tests.server.memory_types import KEY

ABI: list[dict[str, Any]] = [
    {"type": "function", "name": "set", "inputs": [{"name": "x", "type": "uint256"}], "outputs": []},
    {
        "type": "event",
        "name": "Changed",
        "inputs": [{"name": "by", "type": "address", "indexed": True}, {"name": "x", "type": "uint256"}],
    },
    {"type": "error", "name": "TooLarge", "inputs": [{"name": "most", "type": "uint256"}]},
]
SET, CHANGED, TOO_LARGE = entries_of(ABI, "abi")


def shown(content: bytes) -> str:
    return "0x" + content.hex()


@asynchronous
async def test_an_abi_is_found_by_its_hash() -> None:
    async with served() as to:
        hash_ref = await to.call("ptx_storeABI", ABI)
        stored = await to.call("ptx_getStoredABI", hash_ref)
        assert stored["hash"] == hash_ref
        assert entries_of(stored["abi"], "abi") == (SET, CHANGED, TOO_LARGE)
        assert await to.call("ptx_storeABI", stored["abi"]) == hash_ref
        assert await to.call("ptx_queryStoredABIs", {"limit": 10}) == [stored]
        assert await to.call("ptx_queryStoredABIs", {"eq": [{"field": "hash", "value": "0x" + "00" * 32}]}) == []
        assert await to.call("ptx_getStoredABI", "0x" + "00" * 32) is None


@asynchronous
async def test_what_was_stored_can_be_decoded() -> None:
    async with served() as to:
        await to.call("ptx_storeABI", ABI)
        call = shown(SET.selector + encode(["uint256"], [5]))
        decoded = await to.call("ptx_decodeCall", call, "")
        assert (decoded["data"], decoded["signature"], decoded["summary"]) == ({"x": "5"}, "set(uint256)", "set(5)")
        assert entries_of([decoded["definition"]], "definition") == (SET,)
        assert (await to.call("ptx_decodeCall", call, "mode=array&number=hex"))["data"] == ["0x5"]
        topics = [shown(CHANGED.topic), "0x" + "00" * 12 + "11" * 20]
        event = await to.call("ptx_decodeEvent", topics, shown(encode(["uint256"], [2**200])), "number=json-number")
        assert event["data"] == {"by": "0x" + "11" * 20, "x": 2**200}
        assert event["signature"] == "Changed(address,uint256)"
        error = await to.call("ptx_decodeError", shown(TOO_LARGE.selector + encode(["uint256"], [7])))
        assert (error["data"], error["summary"]) == ({"most": "7"}, "TooLarge(7)")
        known = await to.call("ptx_decodeError", shown(TEXT_ERROR.selector + encode(["string"], ["no"])))
        assert (known["data"], known["summary"]) == ({"message": "no"}, 'Error("no")')


@pytest.mark.parametrize(
    ("method", "params", "says"),
    [
        ("ptx_decodeEvent", [["0x" + "22" * 32], "0x", ""], "topics: PD012229"),
        ("ptx_decodeEvent", [[], "0x", ""], "topics: PD012229"),
        ("ptx_decodeEvent", [[shown(CHANGED.topic)], "0x", ""], "topics: PD012229"),
        ("ptx_decodeEvent", [["0x22"], "0x", ""], "topics[0]: must be 32 bytes"),
        ("ptx_decodeCall", ["0x"], "callData: no ABI that is stored has a function 0x"),
        ("ptx_decodeCall", ["0x60fe47b1"], "callData: no ABI that is stored has a function 0x60fe47b1"),
        ("ptx_decodeCall", ["0x60fe47b1", "mode=tree"], "dataFormat: mode must be one of object"),
        ("ptx_decodeError", ["0x12345678"], "revertData: no ABI that is stored has an error 0x12345678"),
        ("ptx_storeABI", [[{"type": "struct"}]], "abi[0].type: must be one of function"),
        ("ptx_queryStoredABIs", [{"eq": [{"field": "abi", "value": 1}]}], "abi: is no field"),
        ("ptx_resolveVerifier", ["alice", "rsa", "eth_address"], "algorithm: must be ecdsa:secp256k1 or domain:zeto:"),
        ("ptx_resolveVerifier", ["alice", "ecdsa:secp256k1", "x"], "verifierType: must be eth_address"),
        ("ptx_resolveVerifier", ["alice", BABYJUBJUB, "eth_address"], "verifierType: must be iden3_pubkey_babyjubjub"),
        ("ptx_resolveVerifier", ["carol", BABYJUBJUB, COMPRESSED_0X], "keyIdentifier: there is no key"),
        ("ptx_resolveVerifier", ["bob@node2", BABYJUBJUB, COMPRESSED_0X], "keyIdentifier: must be a party of node1"),
        ("ptx_resolveVerifier", ["bob@node2", SECP256K1, PUBLIC_KEY], "verifierType: must be eth_address or"),
        ("ptx_resolveVerifier", ["a b", "ecdsa:secp256k1", "eth_address"], "keyIdentifier: must be a party"),
        ("ptx_resolveVerifier", ["carol", "ecdsa:secp256k1", "eth_address"], "keyIdentifier: there is no key"),
    ],
)
@asynchronous
async def test_what_cannot_be_told_is_an_error_that_names_the_parameter(
    method: str, params: list[object], says: str
) -> None:
    async with served() as to:
        await to.call("ptx_storeABI", ABI)
        error = await to.call(method, *params)
        assert error["code"] == -32602
        assert error["message"].startswith(says)


@asynchronous
async def test_party_is_resolved_to_its_public_key_and_to_the_key_of_its_coins() -> None:
    async with served() as to:
        public = await to.call("ptx_resolveVerifier", "alice", SECP256K1, PUBLIC_KEY)
        assert (len(public), keccak(bytes.fromhex(public))[-20:]) == (128, KEY.address)
        assert await to.call("ptx_resolveVerifier", "alice@node1", SECP256K1, PUBLIC_KEY_0X) == "0x" + public
        coins = await to.call("ptx_resolveVerifier", "alice", BABYJUBJUB, COMPRESSED_0X)
        assert decompress(bytes.fromhex(coins.removeprefix("0x"))) != ZERO


@asynchronous
async def test_a_party_is_resolved_to_its_address() -> None:
    async with served() as to:
        address = shown(KEY.address)
        for party in ("alice", "alice@node1"):
            assert await to.call("ptx_resolveVerifier", party, "ecdsa:secp256k1", "eth_address") == address
        checked = await to.call("ptx_resolveVerifier", "alice", "ecdsa:secp256k1", "eth_address_checksum")
        assert checked != address
        assert checked.lower() == address
        away = await to.call("ptx_resolveVerifier", "bob@node2", "ecdsa:secp256k1", "eth_address")
        assert away["code"] == -32603
        assert "the node of bob@node2 has not said" in away["message"]
