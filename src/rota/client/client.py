"""A node as its users see it.

    async with Client("http://127.0.0.1:31548", sender="alice") as client:
        token = await client.tokens.deploy(name="Coin", symbol="C", notary="alice@node1")
        receipt = await (await token.mint("bob@node2", 5))

Questions are repeated when no answer comes, and transactions are sent again under their idempotency keys. The
class of an error names its cause: `errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from rota.client.answers import ContractStatus, FullReceipt, GroupMessage, TransactionReceipt
from rota.client.commands import CommandError, Commands, Patience, unavailable_is_worth_retrying
from rota.client.feeds import FULL_RECEIPTS, MESSAGES, RECEIPTS, Feed
from rota.client.groups import Groups
from rota.client.journal import Journal
from rota.client.jsonrpc import read, read_if_any
from rota.client.ledger import Ledger
from rota.client.settlements import Settlements
from rota.client.tokens import Tokens
from rota.client.transactions import TransactionClient
from rota.client.triggers import Triggers
from rota.model.types import ContractAddress, IntentId, NodeName, intent_text

Receipts = Feed[TransactionReceipt]
FullReceipts = Feed[FullReceipt]
Messages = Feed[GroupMessage]


class Client(TransactionClient):
    """One node. `sender` is the default sender of its calls: a party of that node, such as `alice`."""

    # What it offers, by subject.

    @cached_property
    def tokens(self) -> Tokens:
        """Notary tokens."""
        return Tokens(self)

    @cached_property
    def groups(self) -> Groups:
        """Privacy groups."""
        return Groups(self)

    @cached_property
    def ledger(self) -> Ledger:
        """Public contracts on the base ledger."""
        return Ledger(self)

    @cached_property
    def settlements(self) -> Settlements:
        """Settlements: several transactions that take effect together or not at all."""
        return Settlements(self)

    @cached_property
    def triggers(self) -> Triggers:
        """Automation."""
        return Triggers(self)

    def commands(
        self,
        journal: Journal,
        *,
        application_id: str,
        act_as: Sequence[str] = (),
        uses_stream: bool = False,
        patience: Patience | None = None,
        worth_retrying: Callable[[CommandError], bool] = unavailable_is_worth_retrying,
        accept_weaker: bool = False,
    ) -> Commands:
        """Changes that happen exactly once; of the client's sender, if no other party is named to act as."""
        return Commands(
            self,
            journal,
            application_id=application_id,
            act_as=act_as or (self.sender,),
            uses_stream=uses_stream,
            patience=patience,
            worth_retrying=worth_retrying,
            accept_weaker=accept_weaker,
            payees=self.payees,
        )

    # Feeds.

    def receipts(self, listener: str, *, after: int | None = None, type: str = "", domain: str = "") -> Receipts:
        """The receipts of this node in their order, from the first or from where this listener is.

        `after` is the sequence number behind which they begin; `type` is private or public.
        """
        filters = {"type": type, "domain": domain}
        return Feed(self, RECEIPTS, listener, filters=filters, options={"domainReceipts": False}, after=after)

    def full_receipts(
        self, listener: str, *, after: int | None = None, type: str = "", domain: str = ""
    ) -> FullReceipts:
        """The same, each with its states and what its domain makes of it."""
        filters, options = {"type": type, "domain": domain}, {"domainReceipts": True}
        return Feed(self, FULL_RECEIPTS, listener, filters=filters, options=options, after=after)

    def messages(
        self, listener: str, *, after: int | None = None, group: str = "", topic: str = "", exclude_local: bool = False
    ) -> Messages:
        """The messages between members of groups, in this node's order; `after` is a `local_sequence`."""
        filters, options = {"group": group, "topic": topic}, {"excludeLocal": exclude_local}
        return Feed(self, MESSAGES, listener, filters=filters, options=options, after=after)

    # The sequencer.

    async def status(self, contract: str) -> ContractStatus | None:
        """How a contract stands; nothing when the node does not have it."""
        return read_if_any(await self.ask("seq_status", contract, is_repeatable=True), ContractStatus)

    # Contracts, for operators: users deploy through `deploy`, and every node learns of it.

    async def endorser_address(self, deployment: IntentId) -> ContractAddress:
        """With which address the node endorses in the contract that is deployed under this id."""
        answer = await self.ask("seq_endorserAddress", intent_text(deployment), is_repeatable=True)
        return ContractAddress(read(answer, str))

    async def add_contract(self, genesis: bytes, deployment: IntentId) -> ContractAddress:
        """Have the node take in a contract that was deployed; taken in a second time, nothing changes."""
        parameters = (f"0x{genesis.hex()}", intent_text(deployment))
        answer = await self.ask("seq_addContract", *parameters, is_repeatable=True)
        return ContractAddress(read(answer, str))

    # The node, and its parties.

    async def name(self) -> NodeName:
        """What the node is called in its network."""
        return NodeName(read(await self.ask("transport_nodeName", is_repeatable=True), str))

    async def create_party(self, name: str) -> str:
        """Have the node announce a party of its own, so that others can pay it without a question; its address."""
        parameters = (name, "ecdsa:secp256k1", "eth_address")
        answer = await self.ask("keymgr_resolveKey", *parameters, is_repeatable=True)
        verifier = answer.get("verifier") if isinstance(answer, dict) else None
        return read(verifier.get("verifier") if isinstance(verifier, dict) else None, str)

    async def address_of(self, party: str) -> str:
        """The address of a party of any node: as private contracts and the base ledger know it."""
        parameters = (party, "ecdsa:secp256k1", "eth_address")
        return read(await self.ask("ptx_resolveVerifier", *parameters, is_repeatable=True), str)
