"""What the SDK of existing applications sends, as it was recorded, sent to three real nodes.

ABIs are put back whole; addresses, ids and locks are replaced by those of this network. Each request is answered as
the helper that sends it expects.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.domains.zeto.prover import ThreadProver
from tests.server.storage import BYTECODE
from tests.server.three_nodes import RpcFailed, ThreeNodes, three_nodes
from tests.service.kit import Network

pytestmark = pytest.mark.slow

CLIENTS: Final = Path(__file__).parent / "clients"
REQUESTS: Final = json.loads((CLIENTS / "requests.json").read_text())
ABIS: Final = json.loads((CLIENTS / "abis.json").read_text())
ADDRESS: Final = "0x" + "11" * 20
WORD: Final = "0x" + "22" * 32
TRANSACTION: Final = "00000000-0000-4000-8000-000000000001"
ABI_OF: Final = {f"<abi {len(entries)} entries>": entries for entries in ABIS.values()}
# This one is recorded by its length alone; what it is called by stands in the request.
ABI_OF["<abi 56 entries>"] = [
    {
        "type": "function",
        "name": "delegateLock",
        "inputs": [
            {"name": "utxos", "type": "uint256[]"},
            {"name": "delegate", "type": "address"},
            {"name": "data", "type": "bytes"},
        ],
        "outputs": [],
    }
]

ERC20: Final = json.loads((Path(__file__).parents[1] / "contracts/artifacts/TestToken.json").read_text())

# The recorded spend names no states, and a zero-knowledge token has no such function, so that the ledger refuses it;
# what matters is that it is told.
REVERTED: Final = ("noto.spendLock(public)", "zeto.delegateLock(public)")

# What the next request stands on.
AWAITED: Final = ("zeto.setERC20(public)", "zeto.deposit")
# What is asked of a token whose coins are made of an ERC-20 and not minted.
BACKED: Final = ("zeto.setERC20(public)", "zeto.deposit", "zeto.withdraw")

# What is only prepared ends when somebody commits it.
PREPARED: Final = "ptx_getPreparedTransaction"


class Replay:
    """A network on which the recorded requests make sense: a token with coins and a lock, a group with a contract."""

    def __init__(self, to: ThreeNodes) -> None:
        self.to: Final = to
        self.node: Final = to.node1
        self.latest: dict[str, str] = {}
        self.token = self._deploy_token()
        self.lock = ""
        self.group = ""
        self.stored = ""
        self.coins = ""
        self.backed = ""
        self.locked = ""
        self.erc20 = ""
        self.prepared: list[str] = []
        self._token_call("mint", {"to": "a@node1", "amount": 1_000, "data": "0x"})

    def _deploy_token(self) -> str:
        recorded = next(each for each in REQUESTS if each["helper"].startswith("NotoFactory.newNoto(basic)"))
        receipt = self.node.receipt(self.node.ask("ptx_sendTransaction", *recorded["params"]))
        return str(receipt["contractAddress"])

    def _token_call(self, function: str, data: dict[str, Any]) -> dict[str, Any]:
        sent = {"type": "private", "abi": ABIS["INotoPrivate"], "function": function, "to": self.token}
        receipt: dict[str, Any] = self.node.receipt(
            self.node.ask("ptx_sendTransaction", {**sent, "from": "a@node1", "data": data}), is_full=True
        )
        return receipt

    def new_lock(self, is_prepared: bool = False) -> str:
        """A lock of one coin; its id stands in the receipt. Only one that is prepared can be delegated."""
        shares = {"from": "a@node1", "recipients": [{"to": "b@node2", "amount": 1}], "unlockData": "0x"}
        function, data = ("createTransferLock", shares) if is_prepared else ("lock", {"amount": 1})
        locked = self._token_call(function, {**data, "data": "0x"})
        return str(locked["domainReceipt"]["lockInfo"]["lockId"])

    def params_of(self, recorded: dict[str, Any]) -> list[Any]:
        """As it would have been sent on this network."""
        helper = recorded["helper"]
        if helper.startswith("zeto."):
            token = self.backed if helper in BACKED else self.coins
            replaced = {ADDRESS: token, WORD: self.locked, TRANSACTION: self.latest.get(helper, TRANSACTION)}
            params: list[Any] = [_put_back(each, replaced) for each in recorded["params"]]
            if helper == "zeto.setERC20(public)":
                params[0]["data"]["erc20"] = self.erc20
            return params
        replaced = {ADDRESS: self.stored if helper.startswith("contract.") else self.token}
        replaced[WORD] = self.group if helper.startswith(("group.", "contract.", "PenteFactory")) else self.lock or WORD
        replaced[TRANSACTION] = self.latest.get(helper, TRANSACTION)
        return [_put_back(each, replaced) for each in recorded["params"]]

    def give_coins(self) -> None:
        """The recorded mint pays somebody else, and the one who pays next needs coins too."""
        mint = {"type": "private", "from": "a@node1", "to": self.coins, "function": "mint"}
        mints = [{"to": "a@node1", "amount": 100, "data": "0x"}]
        self.node.receipt(self.node.ask("ptx_sendTransaction", {**mint, "data": {"mints": mints}}))

    def give_tokens(self) -> None:
        """An ERC-20 of which who deposits has some, and a token of it: one whose coins were minted takes none."""
        token = {"type": "private", "domain": "zeto", "from": "a@node1", "data": {"tokenName": "Zeto_Anon"}}
        constructor = {"type": "constructor", "inputs": [{"name": "tokenName", "type": "string"}]}
        made = self.node.ask("ptx_sendTransaction", {**token, "function": "", "abi": [constructor]})
        self.backed = self.node.receipt(made)["contractAddress"]
        deploy = {"type": "public", "from": "a@node1", "abi": ERC20["abi"], "bytecode": ERC20["bytecode"], "data": {}}
        self.erc20 = self.node.receipt(self.node.ask("ptx_sendTransaction", deploy))["contractAddress"]
        account = self.node.ask("ptx_resolveVerifier", "a@node1", "ecdsa:secp256k1", "eth_address")
        of_it = {"type": "public", "from": "a@node1", "abi": ERC20["abi"], "to": self.erc20}
        for function, values in (("mint", [account, 100]), ("approve", [self.backed, 100])):
            call = {**of_it, "function": function, "data": values}
            self.node.receipt(self.node.ask("ptx_sendTransaction", call))

    def note_lock(self, locking: str) -> None:
        """The locked coin has its name in the receipt."""
        self.node.receipt(locking)
        told = self.node.ask("ptx_getDomainReceipt", "zeto", locking)
        (coin,) = [each for each in told["coins"] if each.get("delegate") == self.coins]
        self.locked = coin["id"]

    def send(self, recorded: dict[str, Any]) -> Any:  # noqa: ANN401  # whatever it answers
        """Send it; what it began is what its helper asks for next."""
        if "lockId" in json.dumps(recorded["params"]):
            self.lock = self.new_lock(is_prepared=recorded["helper"] == "noto.delegateLock")
        answer = self.node.ask(recorded["method"], *self.params_of(recorded))
        if recorded["method"].startswith(("ptx_send", "ptx_prepare", "pgroup_send")):
            self.latest[recorded["helper"]] = answer
        if recorded["helper"] == "zeto.lock":
            self.note_lock(answer)
        if recorded["helper"] in AWAITED:
            self.node.receipt(answer)
        if recorded["method"] == "pgroup_createGroup":
            self.group = answer["id"]
            self.latest[recorded["helper"]] = answer["genesisTransaction"]
        return answer


def _put_back(value: Any, replaced: dict[str, str]) -> Any:  # noqa: ANN401  # JSON
    match value:
        case dict():
            return {key: _put_back(each, replaced) for key, each in value.items()}
        case list():
            return [_put_back(each, replaced) for each in value]
        case str() if value in ABI_OF:
            return ABI_OF[value]
        case "<bytecode>":
            return BYTECODE
        case str():
            return replaced.get(value, value)
        case _:
            return value


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replay]:
    with three_nodes(tmp_path_factory.mktemp("replay"), _with_prover) as running:
        yield Replay(running)


async def _with_prover(nodes: Network) -> None:
    nodes.prover = ThreadProver()


def test_every_recorded_request_is_answered_as_its_helper_expects(replay: Replay) -> None:
    ended: dict[str, Any] = {}
    for recorded in REQUESTS:
        if "method" not in recorded or recorded["helper"] == "ws":
            # Over a WebSocket: the next test.
            continue
        helper, method = recorded["helper"], recorded["method"]
        if method.startswith("ptx_getTransactionReceipt"):
            # The helper polls: null, and then the receipt.
            ended[helper] = replay.node.wait_for(method, *replay.params_of(recorded))
            if helper.startswith("group.deploy"):
                replay.stored = ended[helper]["domainReceipt"]["receipt"]["contractAddress"]
            if helper.startswith("ZetoFactory") and not replay.coins:
                replay.coins = ended[helper]["contractAddress"]
                replay.give_coins()
                replay.give_tokens()
        elif method == PREPARED:
            assert replay.node.wait_for(method, *replay.params_of(recorded))["transaction"]
            replay.prepared.append(helper)
        elif helper.startswith("ptx.decodeEvent"):
            with pytest.raises(RpcFailed, match="PD012229"):
                replay.send(recorded)
        else:
            _check(replay, recorded, replay.send(recorded))
    for helper, transaction in replay.latest.items():
        if helper in replay.prepared:
            continue
        receipt = ended.get(helper) or replay.node.wait_for("ptx_getTransactionReceipt", transaction)
        assert receipt.get("success", False) is (helper not in REVERTED), receipt
        assert ("failureMessage" in receipt) is (helper in REVERTED)


def _check(replay: Replay, recorded: dict[str, Any], answer: Any) -> None:  # noqa: ANN401
    match recorded["helper"]:
        case "noto.balanceOf" | "zeto.balanceOf":
            assert set(answer) == {"totalBalance", "totalStates", "overflow"}
        case "noto.name":
            # The output has no name, and the recorded token has none either.
            assert answer == {"0": ""}
        case "PenteFactory.newPrivacyGroup.waitForDeploy":
            assert (answer["id"], answer["members"]) == (answer["genesisSalt"], ["a@node1", "b@node2"])
        case "PenteFactory.resumePrivacyGroup":
            assert answer["contractAddress"]
        case "contract.call":
            assert answer == {"value": "1"}
        case "verifier.address":
            assert answer == replay.node.ask("keymgr_resolveEthAddress", "a")
        case _:
            assert isinstance(answer, str)


def test_the_recorded_requests_over_a_websocket_are_answered(replay: Replay) -> None:
    replay.node.ask("ptx_createReceiptListener", {"name": "l1"})
    subscribe, _, acknowledge = (each for each in REQUESTS if each["helper"].startswith("ws"))
    socket = replay.to.socket("node1")
    subscription = socket.ask(subscribe["method"], *subscribe["params"])
    push = socket.receive()
    assert push["method"] == "ptx_subscription"
    assert push["params"]["subscription"] == subscription
    assert push["params"]["result"]["receipts"]
    assert isinstance(push["params"]["result"]["batchId"], int)
    acknowledged = socket.tell(acknowledge["method"], subscription)
    ended = socket.tell("ptx_unsubscribe", subscription)
    answers: list[dict[str, Any]] = []
    while not answers or answers[-1].get("id") != ended:
        answers.append(socket.receive())
    socket.close()
    # An acknowledgement has no answer.
    assert acknowledged not in [each.get("id") for each in answers]
    assert answers[-1]["result"] is True
