"""Makes rounds into base-ledger transactions and sends them, as the core's submitter orders.

Signing needs no chain: the round is encoded, its gas limit is worked out from its contents and never estimated, and
the signer signs. The same order makes the same transaction, so that an order that is given twice does no harm.
Sending it again does none either: a node that has it says so, and that is as good as taking it.

A transaction that no node takes is told with the node's own words, for an operator; what the core has to know of them
is in `objections`. What the world did not answer at all is not told: the core sends again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rota.core.effects import DispatchRound, SignDispatch, SubmitTransaction
from rota.core.events.chain import AccountSeen, DispatchNotSigned, DispatchSigned, TransactionRefused, TransactionSent
from rota.ledger.client import Call, RpcClient, RpcRefused
from rota.ledger.hexadecimal import data, read_quantity
from rota.ledger.objections import AlreadyKnown, objection_of
from rota.ledger.own_nonces import OwnNonces
from rota.ledger.transaction import DynamicFeeTransaction, decode, signing_hash, with_signature
from rota.ledger.transports import RpcFailure
from rota.payload import (
    COMMIT_GAS_MAX,
    PAYLOAD_BYTES_MAX,
    AuthCost,
    Entry,
    encode_auth,
    encode_commit,
    encode_payload,
    gas_bound,
)
from rota.ports import Contracts, Policy, Signer, Unavailable
from rota.types import ContractAddress, address_bytes


@dataclass(frozen=True, slots=True)
class Commit:
    """A round as a call to its contract, with the most gas that it can need."""

    call_data: bytes
    gas_limit: int


class Submission:
    """The hands of one node on one chain."""

    def __init__(
        self, client: RpcClient, chain_id: int, contracts: Contracts, signer: Signer, signer_name: str, own: OwnNonces
    ) -> None:
        self._client: Final = client
        self._chain_id: Final = chain_id
        self._contracts: Final = contracts
        self._signer: Final = signer
        self._signer_name: Final = signer_name
        self._own: Final = own

    async def next_nonce(self, account: ContractAddress) -> AccountSeen:
        """By the chain's word, with what waits in its pool; a node that has no pending block tells of the latest.

        `ValueError` when the node cannot tell, or is of another chain.
        """
        together = await self._client.call_together(
            Call("eth_chainId"),
            Call("eth_getTransactionCount", (account, "latest")),
            Call("eth_getTransactionCount", (account, "pending")),
        )
        chain_id, latest, pending = together.answers
        for answer in (chain_id, latest):
            if isinstance(answer, RpcFailure):
                raise ValueError(str(answer))
        if read_quantity(chain_id) != self._chain_id:
            raise ValueError(f"its chain id is {read_quantity(chain_id)}, and ours is {self._chain_id}")
        told = [latest] if isinstance(pending, RpcFailure) else [latest, pending]
        return AccountSeen(max(read_quantity(count) for count in told))

    async def sign(self, order: SignDispatch) -> DispatchSigned | DispatchNotSigned:
        """The transaction of a round, signed; or why it could not be."""
        policy = self._contracts.policy_of(order.round.contract)
        if policy is None:
            return _unsigned(order, f"contract: {order.round.contract} is not known here")
        commit = commit_of(order.round, policy)
        if isinstance(commit, str):
            return _unsigned(order, commit)
        transaction = DynamicFeeTransaction(
            chain_id=self._chain_id,
            nonce=order.nonce,
            max_priority_fee_per_gas=order.fees.tip_wei,
            max_fee_per_gas=order.fees.most_wei,
            gas_limit=commit.gas_limit,
            to=address_bytes(order.round.contract),
            data=commit.call_data,
        )
        try:
            signature = await self._signer.sign(self._signer_name, signing_hash(transaction))
        except Unavailable as error:
            return _unsigned(order, f"the signer of {order.signer}: {error}")
        signed = with_signature(transaction, signature)
        return DispatchSigned(order.nonce, order.fees, signed.raw, signed.hash, order.round.digest)

    def note(self, order: SubmitTransaction) -> None:
        """From now on blocks are searched for this nonce."""
        transaction = decode(order.dispatch.transaction).transaction
        assert transaction.to is not None, "what we send is a call"
        self._own.note(order.dispatch.nonce, ContractAddress("0x" + transaction.to.hex()), transaction.data)

    async def send(self, order: SubmitTransaction) -> TransactionSent | TransactionRefused:
        """Send it, or be told that the node has it already."""
        nonce = order.dispatch.nonce
        try:
            await self._client.call("eth_sendRawTransaction", data(order.dispatch.transaction))
        except RpcRefused as refused:
            objection = objection_of(refused.failure)
            if not isinstance(objection, AlreadyKnown):
                return TransactionRefused(nonce, objection, refused.failure.message)
        return TransactionSent(nonce)


def commit_of(order: DispatchRound, policy: Policy) -> Commit | str:
    """The call that commits a round; or why there is none."""
    given = {transition.leaf: transition for transition in order.transitions}
    entries: tuple[Entry, ...] = tuple(given.get(leaf, leaf) for leaf in order.leaves)
    addresses = dict(policy.endorsers)
    signatures = {addresses[node]: signature for node, signature in order.signatures if node in addresses}
    if len(signatures) < policy.threshold:
        return f"signatures: {policy.threshold} are needed, and {len(signatures)} are there"
    auth_cost = AuthCost.of_signatures(len(addresses), policy.threshold)
    payload = encode_payload(entries, order.valid_until_s)
    gas_limit = gas_bound(entries, order.valid_until_s, auth_cost)
    if len(payload) > PAYLOAD_BYTES_MAX or gas_limit > COMMIT_GAS_MAX:
        return (
            f"round: {len(payload)} bytes and {gas_limit} gas are more than a transaction may have, "
            f"{PAYLOAD_BYTES_MAX} bytes and {COMMIT_GAS_MAX} gas"
        )
    auth = encode_auth(tuple(addresses.values()), signatures, policy.threshold)
    return Commit(encode_commit(payload, auth), gas_limit)


def _unsigned(order: SignDispatch, reason: str) -> DispatchNotSigned:
    return DispatchNotSigned(order.nonce, order.fees, reason, order.round.digest)
