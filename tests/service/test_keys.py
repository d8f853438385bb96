"""Keys by their identifiers, as callers see them."""

import pytest

from rota.keys.secp256k1 import recover_address
from tests.server.kit import asynchronous, served

SECP256K1, ETH_ADDRESS = "ecdsa:secp256k1", "eth_address"
# That of the documentation (keys.md), which another implementation derived from the same words.
ALICE = "0x963291e7cf6730b7c6605acc6cf5ab36146a51b2"


@asynchronous
async def test_an_identifier_has_one_address_and_a_path() -> None:
    async with served() as to:
        assert await to.call("keymgr_resolveEthAddress", "alice") == ALICE
        assert await to.call("keymgr_resolveEthAddress", "alice@node1") == ALICE
        found = await to.call("keymgr_resolveKey", "alice", SECP256K1, ETH_ADDRESS)
        handle = found.pop("keyHandle")
        assert handle.startswith("m/44'/60'/2'/1979647585'/")
        assert found == {
            "identifier": "alice",
            "wallet": "wallet",
            "path": [{"name": "alice", "index": 0}],
            "verifier": {"verifier": ALICE, "type": ETH_ADDRESS, "algorithm": SECP256K1},
        }
        assert await to.call("keymgr_wallets") == ["wallet"]


@asynchronous
async def test_an_address_leads_back_to_its_identifier_once_that_was_asked_for() -> None:
    async with served() as to:
        assert await to.call("keymgr_reverseKeyLookup", SECP256K1, ETH_ADDRESS, ALICE) is None
        resolved = await to.call("keymgr_resolveKey", "alice", SECP256K1, ETH_ADDRESS)
        assert await to.call("keymgr_reverseKeyLookup", SECP256K1, ETH_ADDRESS, ALICE.upper()[2:]) == resolved


@asynchronous
async def test_identifiers_with_dots_make_a_tree() -> None:
    async with served() as to:
        for identifier in ("bank.desk.bob", "bank.carol", "alice", "bank"):
            await to.call("keymgr_resolveEthAddress", identifier)
        carol = await to.call("keymgr_resolveKey", "bank.carol", SECP256K1, ETH_ADDRESS)
        assert carol["path"] == [{"name": "bank", "index": 0}, {"name": "carol", "index": 1}]
        every = await to.call("keymgr_queryKeys", {})
        assert [
            (each["path"], each["parent"], each["index"], each["isKey"], each["hasChildren"]) for each in every
        ] == [
            ("alice", "", 1, True, False),
            ("bank", "", 0, True, True),
            ("bank.carol", "bank", 1, True, False),
            ("bank.desk", "bank", 0, False, True),
            ("bank.desk.bob", "bank.desk", 0, True, False),
        ]
        top = await to.call("keymgr_queryKeys", {"eq": [{"field": "parent", "value": ""}], "limit": 1})
        assert [each["verifiers"][0]["verifier"] for each in top] == [ALICE]


@asynchronous
async def test_a_hash_is_signed_as_it_is() -> None:
    async with served() as to:
        digest = "0x" + "17" * 32
        signature = await to.call("keymgr_sign", "alice", SECP256K1, ETH_ADDRESS, "opaque:rsv", digest)
        content = bytes.fromhex(signature[2:])
        assert content[64] in (27, 28)
        recoverable = content[:64] + bytes([content[64] - 27])
        assert "0x" + recover_address(bytes.fromhex(digest[2:]), recoverable).hex() == ALICE


@asynchronous
async def test_an_address_may_be_wanted_with_its_checksum() -> None:
    async with served() as to:
        public = await to.call("keymgr_resolveKey", "alice", SECP256K1, "hex_ecdsa_pubkey_uncompressed_0x")
        key = public["verifier"]["verifier"]
        assert (len(key), public["verifier"]["type"]) == (130, "hex_ecdsa_pubkey_uncompressed_0x")
        reverse = ("keymgr_reverseKeyLookup", SECP256K1, "hex_ecdsa_pubkey_uncompressed_0x")
        assert await to.call(*reverse, key) == public
        assert (await to.call(*reverse, "0x11"))["message"].startswith("verifier: must be a public key of 64 bytes")
        found = await to.call("keymgr_resolveKey", "alice", SECP256K1, "eth_address_checksum")
        assert found["verifier"]["verifier"] == "0x963291E7cf6730b7C6605AcC6cf5Ab36146A51B2"


@pytest.mark.parametrize(
    ("method", "params", "message"),
    [
        ("keymgr_resolveKey", ["alice", "ed25519", ETH_ADDRESS], "algorithm: must be ecdsa:secp256k1"),
        ("keymgr_resolveKey", ["alice", SECP256K1, "x"], "verifierType: must be eth_address or eth_address_checksum"),
        ("keymgr_resolveEthAddress", ["alice@node2"], "keyIdentifier: must be of this node: 'alice@node2' is of node2"),
        ("keymgr_resolveEthAddress", ["a..b"], "keyIdentifier: must be 1 to 16 names with dots between them"),
        ("keymgr_resolveEthAddress", ["x" * 300], "keyIdentifier: must be a party such as alice@node1, not "),
        ("keymgr_reverseKeyLookup", [SECP256K1, ETH_ADDRESS, "0x1"], "verifier: must be an address of 40 hex digits"),
        ("keymgr_sign", ["a", SECP256K1, ETH_ADDRESS, "eip191", "0x"], "payloadType: must be opaque:rsv"),
        ("keymgr_sign", ["a", SECP256K1, ETH_ADDRESS, "opaque:rsv", "0x01"], "payload: must be a hash of 32 bytes"),
        ("keymgr_queryKeys", [{"eq": [{"field": "age", "value": 1}]}], "query.age: is no field of KeyRow"),
        ("keymgr_queryKeys", [{"is": []}], "query.is: is no operation"),
    ],
)
@asynchronous
async def test_an_error_names_the_parameter_and_what_would_be_right(
    method: str, params: list[object], message: str
) -> None:
    async with served() as to:
        await to.call("keymgr_resolveEthAddress", "alice")
        error = await to.call(method, *params)
        assert error["code"] == -32602
        assert error["message"].startswith(message)
