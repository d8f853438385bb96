"""Sets up the contracts and balances of the nodes before the first request.

    before the nodes start    an `Epochs` contract whose members are the nodes, and a trigger at each that advances it
    once they are connected   a privacy group of one member at each node, most of whom endorse; an ERC-20 in it
                              a notary token, whose notary is at a node that does not coordinate the group

Everything is deployed as an application does it: through the nodes' JSON-RPC. It is ready when every member's own node
reports the member's initial balance.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from rota.client import BalanceUnknown, Client, Group, GroupContract, Token
from rota.demo.programme import EACH_BEGINS_WITH, Asset, Programme, Transfer
from rota.demo.show import Show
from rota.ledger.artifacts import load_artifact
from rota.ledger.bindings import creation_code
from rota.localnet.local import LocalNetwork
from rota.localnet.workload import Request
from rota.model.types import ContractAddress, NodeName, Party

EPOCHS: Final = "advance-epochs"
EPOCH_S: Final = 3
# Each node waits a random part of a second and a half, so that several sometimes attempt a task together.
AUTOMATION: Final = {
    "automation.expected_task_duration_ms": 500,
    "automation.polling_interval_ms": 1_000,
    "automation.look_ms": 200,
}
PRIVATE_TOKEN: Final = "PrivateToken"
LANDLORD: Final = "landlord"
# A node that is killed during a payment learns of its change a moment after its restart; it can pay from other coins.
COINS_EACH: Final = 4
LOOK_S: Final = 0.05
SEEN_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Staged:
    """The deployed contracts and their parties. `addresses` are the parties' addresses in private contracts."""

    group_id: str
    contracts: dict[Asset, ContractAddress]
    erc20: str
    notary: Party
    landlord: Party
    addresses: dict[Party, str]
    epochs: ContractAddress

    @property
    def notary_node(self) -> NodeName:
        """The node of the notary."""
        return NodeName(self.notary.partition("@")[2])

    def token_at(self, client: Client) -> Token:
        """The token, through a node's client."""
        return client.tokens.at(self.contracts[Asset.TOKEN])

    async def erc20_at(self, client: Client) -> GroupContract:
        """The ERC-20, through a member's node."""
        group = await client.groups.get(self.group_id)
        assert group is not None, "every member's node has the group"
        return group.contract(self.erc20, abi())

    def request(self, transfer: Transfer) -> Request:
        """The request for a transfer, by its payer."""
        contract, number = self.contracts[transfer.asset], transfer.number
        if transfer.asset is Asset.TOKEN:
            arguments: dict[str, object] = {"to": transfer.payee, "amount": transfer.amount, "data": "0x"}
            return Request(number, "transfer", arguments, contract, transfer.payer)
        return Request(number, "invoke", self.invocation(transfer), contract, transfer.payer)

    def invocation(self, transfer: Transfer) -> dict[str, object]:
        """The arguments of a transfer of the ERC-20."""
        values = [self.addresses[transfer.payee], str(transfer.amount)]
        return {"to": self.erc20, "function": _entry("transfer"), "input": values}


def abi() -> tuple[dict[str, Any], ...]:
    """The ABI of the ERC-20."""
    return load_artifact(PRIVATE_TOKEN).abi


async def deploy_epochs(network: LocalNetwork) -> ContractAddress:
    """Deploy the contract that any node may advance; its members are the accounts that the nodes act with."""
    registrars = [node.keys.registrar for node in network.nodes.values()]
    proposals = (await network.deployer.transact(None, creation_code("Proposals", registrars))).contract
    epochs = (await network.deployer.transact(None, creation_code("Epochs", proposals, EPOCH_S))).contract
    assert epochs is not None, "the receipt of a deployment names its contract"
    return epochs


def trigger_table(epochs: ContractAddress) -> str:
    """The trigger in a node's configuration."""
    return f'[triggers.{EPOCHS}]\ncontract = "{epochs}"\n'


async def stage(network: LocalNetwork, programme: Programme, show: Show, epochs: ContractAddress) -> Staged:
    """Deploy all contracts, and wait until every party has its first balance."""
    first, *_ = programme.names
    clients = {name: node.client for name, node in network.nodes.items()}
    group = await _make_group(clients[first], programme)
    assert group.address is not None, "it is deployed"
    show.happen(f"group {group.address}, {programme.threshold} of {programme.node_count} endorse")
    erc20 = await _deploy_erc20(group, programme.members[first])
    show.happen(f"a private ERC-20 in it, {erc20.address}")
    contract = ContractAddress(group.address)
    notary = Party(f"bank@{await _node_beside_the_coordinator(clients, contract)}")
    token = await clients[first].tokens.deploy(
        name="Coin", symbol="COIN", notary=notary, sender=programme.members[first]
    )
    show.happen(f"token {token.address}, notary {notary}")
    landlord = Party(f"{LANDLORD}@{programme.names[-1]}")
    parties = (*programme.members.values(), landlord)
    found = await asyncio.gather(*(clients[first].address_of(party) for party in parties))
    contracts = {Asset.TOKEN: ContractAddress(token.address), Asset.ERC20: contract}
    addresses = dict(zip(parties, found, strict=True))
    staged = Staged(group.id, contracts, erc20.address, notary, landlord, addresses, epochs)
    await _give(clients, staged, programme)
    show.happen(f"everybody has {EACH_BEGINS_WITH:,} of both")
    return staged


async def _make_group(client: Client, programme: Programme) -> Group:
    return await client.groups.create(
        members=list(programme.members.values()),
        name="demo",
        configuration={"endorsementThreshold": programme.threshold},
        sequencing=programme.sequencing,
    )


async def _deploy_erc20(group: Group, issuer: Party) -> GroupContract:
    artifact = load_artifact(PRIVATE_TOKEN)
    return await group.deploy(artifact.abi, f"0x{artifact.bytecode.hex()}", ["Private coin", "PRIV"], sender=issuer)


async def _node_beside_the_coordinator(clients: dict[NodeName, Client], contract: ContractAddress) -> NodeName:
    """A node that does not coordinate the group, so that killing the coordinator does not stop the token's notary."""
    first = next(iter(clients.values()))
    status = await first.status(contract)
    coordinator = status.active_coordinator or status.ranking[0] if status is not None else None
    return next(name for name in clients if name != coordinator)


async def _give(clients: dict[NodeName, Client], staged: Staged, programme: Programme) -> None:
    """Mint, and wait until every member's own node has it."""
    first, *_ = programme.names
    issuer = programme.members[first]
    token, erc20 = staged.token_at(clients[staged.notary_node]), await staged.erc20_at(clients[first])
    sent = []
    for party in programme.members.values():
        for _ in range(COINS_EACH):
            sent.append(await token.mint(party, EACH_BEGINS_WITH // COINS_EACH, sender=staged.notary))
        values = [staged.addresses[party], str(EACH_BEGINS_WITH)]
        sent.append(await erc20.send("mint", values, sender=issuer))
    await asyncio.gather(*(each.confirmed() for each in sent))
    async with asyncio.timeout(SEEN_TIMEOUT_S):
        for name, party in programme.members.items():
            while await balances_at(clients[name], staged, party, (party,)) != {
                asset: {party: EACH_BEGINS_WITH} for asset in Asset
            }:
                await asyncio.sleep(LOOK_S)


async def balances_at(
    client: Client, staged: Staged, member: Party, parties: tuple[Party, ...]
) -> dict[Asset, dict[Party, int]]:
    """The balances of these parties, as far as the node of this member knows them."""
    token, erc20 = staged.token_at(client), await staged.erc20_at(client)
    coins, private = {}, {}
    for party in parties:
        with suppress(BalanceUnknown):
            coins[party] = (await token.balance_of(party, sender=member)).total_balance
    for party in parties:
        answer = await erc20.call("balanceOf", [staged.addresses[party]], sender=member)
        private[party] = _number(answer)
    return {Asset.TOKEN: coins, Asset.ERC20: private}


async def supply_at(client: Client, staged: Staged, member: Party) -> int:
    """The supply of the ERC-20, as the node of this member reports it."""
    return _number(await (await staged.erc20_at(client)).call("totalSupply", sender=member))


def _number(answer: object) -> int:
    """The only output of a function."""
    assert isinstance(answer, dict), f"outputs have names, unlike {answer!r}"
    (value,) = answer.values()
    return int(value)


def _entry(name: str) -> dict[str, Any]:
    return next(each for each in abi() if each.get("name") == name)
