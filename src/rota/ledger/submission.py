"""Turns rounds into base-ledger transactions and sends them, as the core's submitter orders.

Signing needs no chain: the round is encoded, its gas limit is computed from its contents and never estimated, and the
signer signs. The same order makes the same transaction, so a repeated order is harmless. Sending it again is harmless
too: a node that has it answers so, which counts as accepted.

For a transaction that no node accepts, the node's own text is reported to operators; `objections` extracts what the
core needs. If there is no answer at all, nothing is reported: the core sends again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from rota.calldata import (
    COMMIT_GAS_MAX,
    PAYLOAD_BYTES_MAX,
    AuthCost,
    Entry,
    encode_auth,
    encode_commit,
    encode_payload,
    gas_bound,
    shown_states,
)
from rota.chain.effects import SignDispatch, SubmitTransaction
from rota.chain.events import AccountSeen, DispatchNotSigned, DispatchSigned, TransactionRefused, TransactionSent
from rota.ledger.client import Call, RpcClient, RpcRefused
from rota.ledger.hexadecimal import data, read_quantity
from rota.ledger.objections import AlreadyKnown, objection_of
from rota.ledger.own_nonces import OwnNonces
from rota.ledger.proofs import coins_in, encode_proofs
from rota.ledger.transaction import DynamicFeeTransaction, decode, signing_hash, with_signature
from rota.ledger.transports import RpcFailure
from rota.machine.effects import DispatchRound
from rota.model.types import ContractAddress, Leaf, Transition, address_bytes
from rota.ports import Contracts, Policy, Signer, Unavailable

# Returns the name of an account's key.
KeyOf = Callable[[ContractAddress], str]
FindMakers = Callable[[ContractAddress, Sequence[Leaf]], Awaitable[Sequence[Transition]]]


async def nobody_makes(_contract: ContractAddress, _leaves: Sequence[Leaf]) -> Sequence[Transition]:
    """For a node all of whose contracts have endorsers."""
    return ()


@dataclass(frozen=True, slots=True)
class Commit:
    """A round as a call to its contract, with the most gas that it can need."""

    call_data: bytes
    gas_limit: int


class Submission:
    """Signs and sends for one node on one chain. `find_makers` returns the transitions that made spent states."""

    def __init__(
        self,
        client: RpcClient,
        chain_id: int,
        contracts: Contracts,
        signer: Signer,
        key_of: KeyOf,
        own: OwnNonces,
        find_makers: FindMakers = nobody_makes,
    ) -> None:
        self._client: Final = client
        self._chain_id: Final = chain_id
        self._contracts: Final = contracts
        self._signer: Final = signer
        self._key_of: Final = key_of
        self._own: Final = own
        self._find_makers: Final = find_makers

    async def see_account(self, account: ContractAddress) -> AccountSeen:
        """Return the account's next nonce, its pool included; without a pending block, that of the latest block.

        `ValueError` when the node cannot answer, or is of another chain.
        """
        address = self._signer.address_of(self._key_of(account))
        together = await self._client.call_together(
            Call("eth_chainId"),
            Call("eth_getTransactionCount", (address, "latest")),
            Call("eth_getTransactionCount", (address, "pending")),
            Call("eth_gasPrice"),
        )
        chain_id, latest, pending, price = together.answers
        for answer in (chain_id, latest):
            if isinstance(answer, RpcFailure):
                raise ValueError(str(answer))
        if read_quantity(chain_id) != self._chain_id:
            raise ValueError(f"its chain id is {read_quantity(chain_id)}, and ours is {self._chain_id}")
        told = [latest] if isinstance(pending, RpcFailure) else [latest, pending]
        is_free = not isinstance(price, RpcFailure) and read_quantity(price) == 0
        return AccountSeen(max(read_quantity(count) for count in told), account, address, is_free)

    async def sign(self, order: SignDispatch) -> DispatchSigned | DispatchNotSigned:
        """Return the signed transaction of a round; or why it could not be signed."""
        policy = self._contracts.policy_of(order.round.contract)
        if policy is None:
            return _unsigned(order, f"contract: {order.round.contract} is not known here")
        try:
            makers = await self._find_makers(order.round.contract, () if policy.threshold else makers_in(order.round))
        except Unavailable as error:
            return _unsigned(order, f"what made its inputs: {error}")
        commit = commit_of(order.round, policy, makers)
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
            signature = await self._signer.sign(self._key_of(order.account), signing_hash(transaction))
        except Unavailable as error:
            return _unsigned(order, f"the signer of {order.signer}: {error}")
        signed = with_signature(transaction, signature)
        return DispatchSigned(order.nonce, order.fees, signed.raw, signed.hash, order.round.digest, order.account)

    def note(self, order: SubmitTransaction) -> None:
        """Search blocks for this nonce from now on."""
        dispatch = order.dispatch
        transaction = decode(dispatch.transaction).transaction
        assert transaction.to is not None, "what we send is a call"
        to = ContractAddress("0x" + transaction.to.hex())
        self._own.note(ContractAddress(dispatch.signer), dispatch.nonce, to, transaction.data, dispatch.account)

    async def send(self, order: SubmitTransaction) -> TransactionSent | TransactionRefused:
        """Send it; a node that has it already counts as success."""
        nonce, account = order.dispatch.nonce, order.dispatch.account
        try:
            await self._client.call("eth_sendRawTransaction", data(order.dispatch.transaction))
        except RpcRefused as refused:
            objection = objection_of(refused.failure)
            if not isinstance(objection, AlreadyKnown):
                return TransactionRefused(nonce, objection, refused.failure.message, account)
        return TransactionSent(nonce, account)


def makers_in(order: DispatchRound) -> tuple[Leaf, ...]:
    """Return the leaves that made the states that the proofs of a round name, apart from its own leaves."""
    named = (state.leaf for transition in order.transitions for state in shown_states(transition))
    return tuple(leaf for leaf in dict.fromkeys(named) if leaf not in order.leaves)


def commit_of(order: DispatchRound, policy: Policy, makers: Sequence[Transition] = ()) -> Commit | str:
    """Return the call that commits a round; or why there is none. Proved transitions name the outputs of `makers`."""
    given = {transition.leaf: transition for transition in order.transitions}
    entries: tuple[Entry, ...] = tuple(given.get(leaf, leaf) for leaf in order.leaves)
    if policy.threshold == 0:
        coins = {maker.leaf: coins_in(maker) for maker in (*makers, *order.transitions)}
        missing = [leaf for leaf in makers_in(order) if leaf not in coins]
        if missing:
            return f"round: what made 0x{missing[0].hex()} is not known here"
        return _commit(order, entries, AuthCost.of_proofs(), encode_proofs(entries, coins.__getitem__))
    addresses = dict(policy.endorsers)
    signatures = {addresses[node]: signature for node, signature in order.signatures if node in addresses}
    if len(signatures) < policy.threshold:
        return f"signatures: {policy.threshold} are needed, and {len(signatures)} are there"
    auth = encode_auth(tuple(addresses.values()), signatures, policy.threshold)
    return _commit(order, entries, AuthCost.of_signatures(len(addresses), policy.threshold), auth)


def _commit(order: DispatchRound, entries: tuple[Entry, ...], auth_cost: AuthCost, auth: bytes) -> Commit | str:
    payload = encode_payload(entries, order.valid_until_s)
    gas_limit = gas_bound(entries, order.valid_until_s, auth_cost)
    if len(payload) > PAYLOAD_BYTES_MAX or gas_limit > COMMIT_GAS_MAX:
        return (
            f"round: {len(payload)} bytes and {gas_limit} gas are more than a transaction may have, "
            f"{PAYLOAD_BYTES_MAX} bytes and {COMMIT_GAS_MAX} gas"
        )
    return Commit(encode_commit(payload, auth), gas_limit)


def _unsigned(order: SignDispatch, reason: str) -> DispatchNotSigned:
    return DispatchNotSigned(order.nonce, order.fees, reason, order.round.digest, order.account)
