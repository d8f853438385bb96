"""The audit of the demonstration: the book of all requests, compared with the chain and with every node.

    intents     each that a node accepted has its receipt, and is on the chain once; no other intent is
    balances    each balance is the initial one plus the confirmed transfers, with the rent once; of the token as the
                notary's and each holder's node report it, of the ERC-20 as every member's node does
    heights     every node has every block that the chain has
    epochs      each began once, and by the node that reports to have won it

A problem is a sentence; without problems the list is empty. The checks are separate from the queries, so that they can
be tested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from rota.automation.shipped import AdvanceEpochs
from rota.client import ClientError
from rota.demo.payroll import rent_of
from rota.demo.programme import EACH_BEGINS_WITH, Asset, Programme, Transfer
from rota.demo.show import Attempts, CommandTold, Show
from rota.demo.staging import EPOCHS, Staged, balances_at, supply_at
from rota.ledger.hexadecimal import quantity
from rota.ledger.reading import read_logs
from rota.ledger.signatures import decode_log
from rota.localnet.audit import PROBLEMS_MAX, Audit, height_problems, promise_problems
from rota.localnet.chain_book import ATTEMPTS_MAX, ChainBook
from rota.localnet.local import LocalNetwork
from rota.localnet.workload import Workload
from rota.model.types import ContractAddress, IntentId, NodeName, Party

Balances = Mapping[Asset, Mapping[Party, int]]


@dataclass(frozen=True, slots=True)
class Reckoning:
    """The data for the audit. The book of the chain begins after the contracts were set up."""

    network: LocalNetwork
    programme: Programme
    staged: Staged
    workload: Workload
    from_height: int

    async def audit(self, show: Show) -> Audit:
        """Query every node, and check. A value that is only late is right at the next audit."""
        network, staged = self.network, self.staged
        book = ChainBook(network.ledger, network.chain_id, tuple(staged.contracts.values()), self.from_height)
        await book.read_on()
        command = show.command
        others = () if command is None else (IntentId(UUID(command.transaction).bytes),)
        promises, receipts = self.workload.promises, self.workload.receipts
        problems = promise_problems(promises, receipts, book.committed, others)
        problems += [f"a transfer was refused: {refusal}" for refusal in self.workload.refusals]
        if self.workload.unanswered:
            problems.append(f"{self.workload.unanswered} transfers were asked for, and no node has answered")
        if command is None:
            problems.append("the command was not submitted")
        problems += await height_problems(network, book)
        problems += await self._balance_problems(command)
        problems += await self._epoch_problems(show)
        confirmed = sum(book.committed[intent] == 1 for intent in (*promises, *others))
        return Audit(book.height, book.rounds, confirmed, tuple(problems[:PROBLEMS_MAX]))

    async def _balance_problems(self, command: CommandTold | None) -> list[str]:
        receipts, promises = self.workload.receipts, self.workload.promises
        ended = [promises[intent] for intent, receipt in receipts.items() if receipt.success]
        transfers = [self.programme.transfer(each.request.number, each.node) for each in ended]
        if command is not None:
            transfers.append(rent_of(command.payer, self.staged.landlord))
        expected = expected_balances(self.programme, self.staged.landlord, transfers)
        problems: list[str] = []
        for name, member in self.programme.members.items():
            client = self.network.nodes[name].client
            try:
                told = await balances_at(client, self.staged, member, tuple(expected[Asset.ERC20]))
                supply = await supply_at(client, self.staged, member)
            except ClientError as error:
                problems.append(f"{name} does not say what everybody has: {error}")
                continue
            known = expected if name == self.staged.notary_node else without_strangers(expected, member)
            problems += balance_problems(name, known, told)
            total = sum(expected[Asset.ERC20].values())
            if supply != total:
                problems.append(f"{name} says that there are {supply} of the ERC-20, and it must be {total}")
        return problems

    async def _epoch_problems(self, show: Show) -> list[str]:
        begun = await epochs_begun(self.network, self.staged.epochs)
        by_member = {node.keys.registrar: name for name, node in self.network.nodes.items()}
        lived_on = {name for name, node in self.network.nodes.items() if node.starts == 1}
        show.epochs = len(begun)
        began = Counter(by_member.get(member) for _, member in begun)
        show.epochs_by_node = {name: began[name] for name in self.network.nodes}
        return epoch_problems([(epoch, by_member.get(member)) for epoch, member in begun], show.attempts, lived_on)


def expected_balances(
    programme: Programme, landlord: Party, transfers: Iterable[Transfer]
) -> dict[Asset, Counter[Party]]:
    """The balance of every party after these transfers; the landlord begins with nothing."""
    begin = dict.fromkeys(programme.members.values(), EACH_BEGINS_WITH)
    expected = {asset: Counter({**begin, landlord: 0}) for asset in Asset}
    for transfer in transfers:
        expected[transfer.asset][transfer.payer] -= transfer.amount
        expected[transfer.asset][transfer.payee] += transfer.amount
    return expected


def without_strangers(expected: Balances, member: Party) -> Balances:
    """The balances that the node of a holder must know: all of the ERC-20, and its own of the token."""
    return {**expected, Asset.TOKEN: {member: expected[Asset.TOKEN][member]}}


def balance_problems(name: NodeName, expected: Balances, told: Balances) -> list[str]:
    """The values of a node that differ from the expected ones."""
    return [
        f"{name} says that {party} has {told[asset].get(party)} of the {asset.value}, and it must be {amount}"
        for asset, amounts in expected.items()
        for party, amount in amounts.items()
        if told[asset].get(party) != amount
    ]


def epoch_problems(
    begun: Sequence[tuple[int, NodeName | None]], attempts: Mapping[NodeName, Attempts], lived_on: Collection[NodeName]
) -> list[str]:
    """Each epoch began once, by a node; each node counts those it won, or after a restart those it won since."""
    numbers = [epoch for epoch, _ in begun]
    if not numbers:
        return ["no epoch has begun"]
    problems = [] if numbers == list(range(1, len(numbers) + 1)) else [f"epochs began in this order: {numbers}"]
    began = Counter(name for _, name in begun)
    if began[None]:
        problems.append(f"{began[None]} epochs were begun by nobody of the network")
    for name, each in attempts.items():
        is_right = each.won == began[name] if name in lived_on else each.won <= began[name]
        if not is_right:
            problems.append(f"{name} counts {each.won} epochs as won, and the chain {began[name]}")
    return problems


async def epochs_begun(network: LocalNetwork, epochs: ContractAddress) -> list[tuple[int, ContractAddress]]:
    """The epochs that began, with the accounts that began them, in the order of the chain."""
    wanted = {"address": epochs, "fromBlock": quantity(network.from_height), "toBlock": "latest"}
    logs = read_logs(await network.ledger.call("eth_getLogs", wanted, attempts_max=ATTEMPTS_MAX))
    found = [decode_log(AdvanceEpochs.ADVANCED, log) for log in logs]
    return [(int(each[0]), ContractAddress(str(each[1]).lower())) for each in found if each is not None]


async def attempts_of(network: LocalNetwork, name: NodeName) -> tuple[Attempts, int]:
    """The outcomes of a node's attempts, and the number under way; zeros before it has loaded its triggers."""
    listed = await network.nodes[name].client.triggers.list()
    status = next((each for each in listed if each.name == EPOCHS), None)
    if status is None:
        return Attempts(), 0
    counted = status.attempted
    return Attempts(counted.won, counted.lost, counted.skipped, counted.failed), status.at_work
