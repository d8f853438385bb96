"""Rounds as base-ledger transactions: what is signed, with how much gas, and why it sometimes is not."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from rota.calldata import COMMIT_GAS_MAX, Malformed, decode_payload
from rota.chain.effects import RoundDispatch, SignDispatch, SubmitTransaction
from rota.chain.events import AccountSeen, DispatchNotSigned, DispatchSigned, TransactionSent
from rota.keys.secp256k1 import recover_address
from rota.ledger.client import RpcClient
from rota.ledger.consistency import Patience
from rota.ledger.own_nonces import OwnNonces
from rota.ledger.submission import Commit, Submission, commit_of
from rota.ledger.transaction import DynamicFeeTransaction, decode
from rota.machine.effects import DispatchRound
from rota.model.digests import core_of, domain_separator, leaf_of, round_digest, state_commitment
from rota.model.types import (
    SHARED_ACCOUNT,
    Call,
    Contract,
    ContractAddress,
    Fees,
    Mode,
    NodeName,
    State,
    StateId,
    Transition,
)
from rota.ports import Policy, Signer, Unavailable
from rota.sim.domain import intent_id
from tests.ledger.chains import CHAIN_ID, in_loop
from tests.ledger.fault_proxy import Answer, Ask, Request, proxied
from tests.ledger.participant import ALONE, ENDORSER, ENDORSER_KEY, PAYER, OneContract, OneKey

ADDRESS = ContractAddress("0x" + "11" * 20)
CONTRACT = Contract(ADDRESS, (ALONE,), (ALONE,), 1, Mode.STATIC, chain_id=CHAIN_ID)
POLICY = Policy(((ALONE, ENDORSER),), 1)
SEPARATOR = domain_separator(CHAIN_ID, ADDRESS)
VALID_UNTIL_S = 2_000_000_000
FEES = Fees(3_000_000_000, 1_000_000_000)


def transition(name: str, *calls: Call) -> Transition:
    commitment = state_commitment(name.encode())
    leaf = leaf_of(core_of(SEPARATOR, intent_id(name), outputs=(commitment,), calls=calls))
    made = State(StateId(leaf, 0), commitment, (ALONE,), name.encode())
    return Transition(intent_id(name), leaf, outputs=(made,), valid_until_s=VALID_UNTIL_S, calls=calls)


def order(*transitions: Transition, leaves_more: int = 0) -> DispatchRound:
    """A round of these, and of more leaves that are left out."""
    leaves = tuple(each.leaf for each in transitions) + tuple(
        transition(f"other-{number}").leaf for number in range(leaves_more)
    )
    digest = round_digest(SEPARATOR, leaves, VALID_UNTIL_S)
    signatures = ((ALONE, ENDORSER_KEY.sign_compact(digest)),)
    return DispatchRound(ADDRESS, digest, leaves, transitions, (ALONE,) * len(transitions), signatures, VALID_UNTIL_S)


class NoKey(OneKey):
    """A signer that is out of reach."""

    async def sign(self, signer: str, digest: bytes) -> bytes:
        raise Unavailable("its device does not answer")


def submission(signer: Signer | None = None, client: RpcClient | None = None) -> Submission:
    client = client or RpcClient("http://127.0.0.1:1")
    own = OwnNonces(client, 256, Patience())
    return Submission(client, CHAIN_ID, OneContract(CONTRACT), signer or OneKey(), lambda _: ALONE, own)


async def signed(round_: DispatchRound, nonce: int = 7) -> DispatchSigned:
    answer = await submission().sign(SignDispatch(round_, ALONE, nonce, FEES))
    assert isinstance(answer, DispatchSigned)
    return answer


@in_loop
async def test_transaction_calls_the_contract_for_the_fees_and_nonce_of_the_order() -> None:
    answer = await signed(order(transition("A-1")))
    transaction = decode(answer.transaction)
    assert answer.hash == transaction.hash
    sent = transaction.transaction
    assert isinstance(sent, DynamicFeeTransaction)
    assert (sent.chain_id, sent.nonce, sent.to) == (CHAIN_ID, 7, bytes.fromhex(ADDRESS[2:]))
    assert (sent.max_fee_per_gas, sent.max_priority_fee_per_gas) == FEES
    assert transaction.sender(recover_address) == bytes.fromhex(PAYER[2:])


@in_loop
async def test_same_order_makes_the_same_transaction() -> None:
    assert await signed(order(transition("A-1"))) == await signed(order(transition("A-1")))


def test_leaves_that_are_not_ours_to_commit_are_bare() -> None:
    round_ = order(transition("A-1"), leaves_more=2)
    commit = commit_of(round_, POLICY)
    assert isinstance(commit, Commit)
    start = 4 + 32 * 3 + 32
    size = int.from_bytes(commit.call_data[start - 32 : start], "big")
    payload = decode_payload(commit.call_data[start : start + size], SEPARATOR)
    assert not isinstance(payload, Malformed)
    assert payload.leaves == round_.leaves
    assert len(payload.entries) == 3


def test_gas_limit_grows_with_what_is_in_the_round_and_is_no_constant() -> None:
    commits = [commit_of(order(*(transition(f"A-{n}") for n in range(count))), POLICY) for count in (1, 2, 10)]
    limits = [commit.gas_limit for commit in commits if isinstance(commit, Commit)]
    assert 0 < limits[0] < limits[1] < limits[2] < COMMIT_GAS_MAX


@in_loop
async def test_round_without_enough_signatures_is_not_signed() -> None:
    round_ = replace(order(transition("A-1")), signatures=((NodeName("stranger"), bytes(64)),))
    answer = await submission().sign(SignDispatch(round_, ALONE, 7, FEES))
    assert answer == DispatchNotSigned(7, FEES, "signatures: 1 are needed, and 0 are there", round_.digest)


@in_loop
async def test_round_of_an_unknown_contract_is_not_signed() -> None:
    other = ContractAddress("0x" + "22" * 20)
    round_ = replace(order(transition("A-1")), contract=other)
    answer = await submission().sign(SignDispatch(round_, ALONE, 7, FEES))
    assert answer == DispatchNotSigned(7, FEES, f"contract: {other} is not known here", round_.digest)


@in_loop
async def test_round_that_no_transaction_holds_is_not_signed() -> None:
    greedy = transition("A-1", Call(ContractAddress("0x" + "33" * 20), 30_000_000))
    answer = await submission().sign(SignDispatch(order(greedy), ALONE, 7, FEES))
    assert isinstance(answer, DispatchNotSigned)
    assert answer.reason.endswith("are more than a transaction may have, 122880 bytes and 16000000 gas")


@in_loop
async def test_signer_that_fails_is_told_with_its_reason() -> None:
    round_ = order(transition("A-1"))
    answer = await submission(NoKey()).sign(SignDispatch(round_, ALONE, 7, FEES))
    assert answer == DispatchNotSigned(7, FEES, "the signer of alone: its device does not answer", round_.digest)


@in_loop
async def test_node_without_a_pending_block_tells_of_the_latest() -> None:
    async def view(request: Request, _: Ask) -> Answer:
        if request["method"] == "eth_gasPrice":
            return {"jsonrpc": "2.0", "id": request["id"], "result": "0x0"}
        if request["method"] == "eth_chainId":
            return {"jsonrpc": "2.0", "id": request["id"], "result": hex(CHAIN_ID)}
        if request["params"][1] == "pending":
            return {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32000, "message": "no pending block"}}
        return {"jsonrpc": "2.0", "id": request["id"], "result": "0x5"}

    async with proxied("") as (node, url):
        node.view = view
        client = RpcClient(url)
        seen = await submission(client=client).see_account(SHARED_ACCOUNT)
        assert seen == AccountSeen(5, SHARED_ACCOUNT, PAYER, is_gas_free=True)
        await client.close()


@in_loop
async def test_several_submissions_of_one_turn_go_in_one_batch() -> None:
    async def view(request: Request, _: Ask) -> Answer:
        return {"jsonrpc": "2.0", "id": request["id"], "result": "0x" + "00" * 32}

    async with proxied("") as (node, url):
        node.view = view
        client = RpcClient(url)
        hands = submission(client=client)
        orders = []
        for nonce in range(5):
            made = await signed(order(transition(f"A-{nonce}")), nonce)
            dispatch = RoundDispatch(order(transition(f"A-{nonce}")), ALONE, nonce, FEES, made.transaction, made.hash)
            orders.append(SubmitTransaction(dispatch))
        answers = await asyncio.gather(*(hands.send(each) for each in orders))
        assert list(answers) == [TransactionSent(nonce) for nonce in range(5)]
        assert node.batches == [5]
        await client.close()
