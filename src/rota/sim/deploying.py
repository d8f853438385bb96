"""Users of a seed who deploy contracts and then use them, and a stranger who takes some of their ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import combinations

from rota.directory.deployment import Deployment
from rota.machine.events import CancelRequested, IntentSubmitted
from rota.model.blocks import FactoryDeployment
from rota.model.genesis import encode_genesis, genesis_hash
from rota.model.types import NO_CONTRACT, Contract, ContractAddress, Intent, IntentId, Party, Receipt
from rota.node.acquaintance import MISTRUST_MS
from rota.sim.deployment_plan import REFUSED_BY_FACTORY, PlannedDeployment
from rota.sim.facts import Cause, ContractsKnown, Wanted
from rota.sim.submissions import Submission
from rota.sim.world import World

# After this time a node that reconnects has requested the contracts that it lacks, and their states.
ACQUAINTED_AFTER_MS = 30_000


class Deploying:
    """Plays the planned deployments in a world with a factory. `submit` submits the uses of deployed contracts."""

    def __init__(
        self, world: World, planned: tuple[PlannedDeployment, ...], until_ms: int, submit: Callable[[Submission], None]
    ) -> None:
        self.world = world
        self.planned = planned
        self.until_ms = until_ms
        self.submit = submit
        self.by_id = {each.id: each for each in planned}
        self.used: list[Submission] = []
        self._reported: set[IntentId] = set()

    def open(self) -> None:
        """Schedule the planned deployments."""
        self.world.on_receipt = self._told
        for each in self.planned:
            self.world.at(each.at_ms, partial(self._deploy, each))

    # Users.

    def _deploy(self, planned: PlannedDeployment) -> None:
        other = next((each.id for each in self.planned if each.number == planned.depends_on), None)
        depends_on = (other,) if other is not None else ()
        payload = encode_genesis(planned.genesis)
        intent = Intent(planned.id, NO_CONTRACT, Party(f"user@{planned.node}"), payload, depends_on)
        self.world.judge.tell(Wanted(planned.node, intent, self._causes_of(planned)))
        self.world.submit(planned.node, NO_CONTRACT, IntentSubmitted(f"deployment {planned.number}", intent))
        if planned.cancel_after_ms is not None:
            self._later(planned.cancel_after_ms, partial(self._cancel, planned))
        if planned.taken_after_ms is not None:
            self._later(planned.taken_after_ms, partial(self._take_id, planned))

    def _causes_of(self, planned: PlannedDeployment) -> frozenset[Cause]:
        configuration = planned.genesis.configuration
        causes = {
            Cause.CANCELLED: planned.cancel_after_ms is not None,
            Cause.ID_TAKEN: planned.taken_after_ms is not None,
            Cause.FACTORY_REFUSES: configuration == REFUSED_BY_FACTORY,
            Cause.NODE_REFUSES: bool(configuration) and configuration != REFUSED_BY_FACTORY,
        }
        return frozenset(cause for cause, is_there in causes.items() if is_there)

    def _cancel(self, planned: PlannedDeployment) -> None:
        cancel = CancelRequested(f"cancel deployment {planned.number}", planned.id)
        self.world.submit(planned.node, NO_CONTRACT, cancel)

    def _take_id(self, planned: PlannedDeployment) -> None:
        """Have a stranger who knows id and genesis deploy its own contract under the id, unless the id is used.

        Ids are random, and no stranger knows one before its node has accepted it.
        """
        if planned.id not in self.world.nodes[planned.node].disk.intents:
            return
        genesis = planned.genesis
        contract = genesis.contract(ContractAddress("0x" + planned.id.hex() + "00000000"))
        signers = (contract.address,) * len(genesis.endorsers)
        hashed = genesis_hash(encode_genesis(genesis))
        self.world.chain.strange.add(contract.address)
        self.world.add_contract(contract)
        self.world.chain.deploy(
            FactoryDeployment(planned.id, contract.address, hashed, signers, genesis.threshold), contract
        )

    def _told(self, receipt: Receipt) -> None:
        """When a deployment is reported as confirmed, schedule its uses, until the faults end."""
        planned = self.by_id.get(receipt.intent)
        if planned is None or receipt.contract is None or receipt.intent in self._reported:
            return
        self._reported.add(receipt.intent)
        for use in planned.uses:
            if self.world.now_ms + use.at_ms < self.until_ms:
                self._later(use.at_ms, partial(self._use, replace(use, contract=receipt.contract)))

    def _use(self, use: Submission) -> None:
        self.used.append(use)
        self.submit(use)

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.world.at(self.world.now_ms + delay_ms, action)

    # Results.

    @property
    def contracts(self) -> tuple[Contract, ...]:
        """The contracts that were deployed as their users wanted."""
        made = (self.world.ledger.deployed.get(each.id) for each in self.planned)
        addresses = [each.contract for each in made if each is not None]
        return tuple(self.world.by_address[each] for each in addresses if each not in self.world.chain.strange)

    @property
    def open_deployments(self) -> list[Deployment]:
        """The deployments that have not ended, at running nodes."""
        cores = [node.core for node in self.world.nodes.values() if node.core is not None]
        return [deployment for core in cores for deployment in core.deployments.own.values()]

    def acquaint(self) -> None:
        """Reconnect all nodes, so that each asks its peers which contracts it may have, and wait."""
        for one, other in combinations(self.world.nodes, 2):
            self.world.wires.reconnect(one, other)
        self._wait(ACQUAINTED_AFTER_MS)
        if not all(node.core is None or node.core.acquaintance.is_idle for node in self.world.nodes.values()):
            # After a recent reorganisation a node waits before it asks again for a contract made in a removed block.
            self._wait(MISTRUST_MS)

    def _wait(self, for_ms: int) -> None:
        self.world.run_until(self.world.now_ms + for_ms, lambda: bool(self.world.judge.found))

    def conclude(self) -> None:
        """Report the contracts of each node at the end."""
        for name, contracts in self.world.contracts_of.items():
            self.world.judge.tell(ContractsKnown(name, frozenset(contract.address for contract in contracts)))
