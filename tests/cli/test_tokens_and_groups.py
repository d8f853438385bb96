"""`rota token`, `rota group` and `rota tx` on three real nodes, as somebody types them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from click.testing import Result

from rota.ledger.artifacts import load_artifact
from tests.cli.kit import rota, told
from tests.server.three_nodes import ThreeNodes, three_nodes, until

pytestmark = pytest.mark.slow

PRIVATE_TOKEN = load_artifact("PrivateToken")


@pytest.fixture(scope="module")
def to(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeNodes]:
    """The nodes are in this process, and what they log would be taken for what a command prints."""
    home: Path = tmp_path_factory.mktemp("commands")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        with three_nodes(home) as running:
            yield running
    finally:
        structlog.reset_defaults()


def done(*arguments: object) -> str:
    """What a command prints that does well."""
    result: Result = rota(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


def test_a_token_is_issued_paid_with_locked_and_burned(to: ThreeNodes) -> None:
    bank, alice = ("--node", to.node1.url, "--from", "bank"), ("--node", to.node2.url, "--from", "alice")
    token = done("token", "deploy", *bank, "--name", "Coin", "--symbol", "C", "--notary", "bank@node1")
    assert "Symbol    C" in done("token", "show", token, "--node", to.node1.url)
    assert told("token", "show", token, "--node", to.node1.url)["name"] == "Coin"
    misspelt = rota("token", "mint", token, "alcie@node2", 100, *bank)
    assert misspelt.exit_code == 1
    assert "alcie@node2 is not known: no user of node2 has used it" in misspelt.stderr
    assert "--new-party" in misspelt.stderr
    wallet = rota("token", "mint", token, "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266", 100, *bank)
    assert wallet.exit_code == 1
    assert "must be a party, not an address, key or hash" in wallet.stderr
    created = done("party", "create", "alice", "--node", to.node2.url)
    assert created == f"alice@node2  {told('party', 'create', 'alice', '--node', to.node2.url)['address']}"
    assert done("token", "mint", token, "alice@node2", 100, *bank).startswith("confirmed: ")
    assert rota("token", "transfer", token, "bob@node3", 30, *alice).exit_code == 1
    done("party", "create", "bob@node3", "--node", to.node3.url)
    paid = told("token", "transfer", token, "bob@node3", 30, *alice, "--key", "rent")
    assert paid["success"] is True
    assert told("token", "transfer", token, "bob@node3", 30, *alice, "--key", "rent")["id"] == paid["id"]
    other = rota("token", "transfer", token, "bob@node3", 4, *alice, "--key", "rent")
    assert other.exit_code == 1
    assert paid["id"] in other.stderr
    assert '"amount": "30"' in other.stderr
    assert "Nothing was sent; use another --key" in other.stderr
    unknown = rota("tx", "send", "--to", token, "--function", "transferAll", "--data", "[]", *alice, "--key", "rent")
    assert unknown.exit_code == 3
    assert "cannot be told: function: must be" in unknown.stderr
    assert f"rota tx show {paid['id']}" in unknown.stderr
    once = ("token", "transfer", token, "bob@node3", 2, *alice, "--exactly-once", "invoice 7")
    assert done(*once).startswith("succeeded: it happened once, at offset 1")
    assert done(*once).startswith("succeeded: it was done before, at offset 1, on 20")
    conflict = rota(*once[:4], 3, *once[5:])
    assert (conflict.exit_code, "COMMAND_ID_USED" in conflict.stderr) == (1, True)
    assert rota(*once, "--key", "k").exit_code == 2
    done("token", "transfer", token, "alice@node2", 2, "--node", to.node3.url, "--from", "bob")
    assert done("token", "balance", token, "alice@node2", "--node", to.node1.url) == "70 (0.0070 with 4 decimals)"
    elsewhere = rota("token", "balance", token, "bob@node3", "--node", to.node2.url)
    assert elsewhere.exit_code == 1
    assert "unknown: this node does not know the balance of bob@node3; node1 and node3 would" in elsewhere.stderr
    assert "digits behind the point" in rota("token", "mint", token, "carol@node2", "1.00001", *bank).stderr
    done("token", "mint", token, "carol@node2", "1.5", *bank, "--new-party")
    assert told("token", "balance", token, "carol@node2", "--node", to.node1.url)["totalBalance"] == 15_000
    done("token", "burn", token, 10, *alice)
    done("token", "transfer", token, "bob@node3", 5, "--owner", "alice@node2", *bank)
    done("token", "burn", token, 5, "--owner", "alice@node2", *bank)
    lock = told("token", "lock", token, 30, *alice)["lock"]
    done("token", "unlock", token, lock, "--owner", "alice@node2", "--share", "bob@node3=5", *alice)
    done("token", "prepare-unlock", token, lock, "--owner", "alice@node2", "--share", "bob@node3=20", *alice)
    done("token", "spend-lock", token, lock, *alice)
    another = done("token", "lock", token, 10, *alice).rpartition(" ")[2]
    done("token", "cancel-lock", token, another, *alice)
    delegated = told("token", "lock", token, 1, *alice)["lock"]
    done("token", "prepare-unlock", token, delegated, "--owner", "alice@node2", "--share", "bob@node3=1", *alice)
    done("token", "delegate-lock", token, delegated, "0x" + "11" * 20, *alice)
    found = told("token", "balance", token, "bob@node3", "--node", to.node1.url)
    counted = {"totalBalance": 60, "totalStates": found["totalStates"], "overflow": False, "decimals": 4}
    assert found == {"account": "bob@node3", **counted}

    poor = rota("token", "transfer", token, "bob@node3", 1_000, *alice)
    assert poor.exit_code == 1
    assert "Insufficient funds" in poor.stderr
    accepted = done("token", "mint", token, "alice@node2", 1, *bank, "--no-wait")
    watched = rota("tx", "watch", accepted, "--node", to.node1.url, "--within", 60)
    assert watched.exit_code == 0, watched.output
    assert watched.stdout.splitlines()[-1].startswith(f"confirmed: {accepted}, block ")
    assert "State        confirmed" in done("tx", "show", accepted, "--node", to.node1.url)
    assert "accepted" in done("tx", "explain", accepted, "--node", to.node1.url)
    listed = told("tx", "list", "--from", "bank@node1", "--to", token, "--limit", 2, "--node", to.node1.url)
    assert (len(listed), listed[0]["id"]) == (2, accepted)


def test_a_private_contract_is_used_by_the_members_of_a_group(to: ThreeNodes, tmp_path: Path) -> None:
    abi = tmp_path / "PrivateToken.json"
    abi.write_text(json.dumps({"abi": list(PRIVATE_TOKEN.abi), "bytecode": PRIVATE_TOKEN.bytecode.hex()}))
    one, two = ("--node", to.node1.url), ("--node", to.node2.url)
    create = ("group", "create", *one, "--member", "alice@node1", "--member", "bob@node2", "--name", "desk")
    terms = ("--rotation", "strict", "--range-size", 20)
    made: dict[str, Any] = told(*create, *terms, "--key", "desk")
    assert made["sequencing"] == {"mode": "ring", "rotation": "strict", "rangeSize": 20}
    assert done(*create, *terms, "--key", "desk") == made["id"]
    other = rota(*create, "--key", "desk")
    assert (other.exit_code, "PD012220" in other.stderr) == (1, True)
    static = rota(*create, "--mode", "static")
    assert (static.exit_code, "spec.sequencing.mode: must be ring" in static.stderr) == (1, True)
    group = made["id"]
    assert told("group", "show", made["contractAddress"], *one)["id"] == group
    shown = done("group", "show", group, *one)
    assert "alice@node1, bob@node2" in shown
    assert "mode ring, rotation strict, ranges of 20 blocks" in shown
    listed = done("group", "list", *one, "--member", "alice@node1").splitlines()
    assert listed[1].split()[0] == "desk"
    assert listed[1].endswith("strict, 20  alice@node1, bob@node2")
    assert done("group", "list", "--node", to.node3.url) == "There is none."
    absent = rota("group", "show", group, "--node", to.node3.url)
    assert (absent.exit_code, "has no group" in absent.stderr) == (1, True)

    contract = done("group", "deploy", group, *one, "--from", "alice", "--abi", f"@{abi}", "--data", '["Shares", "S"]')
    address = to.node1.ask("ptx_resolveVerifier", "bob@node2", "ecdsa:secp256k1", "eth_address")
    mint = ("mint", "--abi", f"@{abi}", "--data", json.dumps([address, 50]))
    assert done("group", "send", group, contract, *mint, *one, "--from", "alice").startswith("confirmed: ")
    ask = ("group", "call", group, contract, "balanceOf", "--abi", f"@{abi}", "--data", json.dumps([address]))
    assert done(*ask, *one, "--from", "alice") == "balance = 50"
    until(lambda: rota(*ask, *two, "--from", "bob").stdout.strip() == "balance = 50")

    sent = done("group", "message", group, '{"hello": "bob"}', "--topic", "greetings", *one)
    until(lambda: told("group", "messages", group, "--topic", "greetings", *two) or None)
    (message,) = told("group", "messages", group, *two)
    assert (message["id"], message["data"]) == (sent, {"hello": "bob"})
    assert 'greetings  {"hello": "bob"}' in done("group", "messages", group, *two)
