"""Invariants of deployments: one contract for each, promises kept across restarts, contracts at the right nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.directory.effects import ContractTaken, DeploymentAgreed, DeploymentProposed, ProposalForgotten
from rota.machine.effects import IntentFinalised
from rota.model.genesis import decode_genesis
from rota.model.types import NO_CONTRACT, ContractAddress, IntentId, NodeName, Outcome, Receipt
from rota.sim.facts import ContractsKnown, Deployed, FactoryOrdered, Recorded, Reported, Sent, Started, Wanted
from rota.sim.invariants.judge import Handler, Invariant
from rota.wire.messages import DeploymentAnswer, Verdict

KINDS = {True: "those that may know it", False: "the others"}


class ContractsAreMadeOnce(Invariant):
    """D1: a deployment makes at most one contract, and its reported outcome never changes.

    The reported contract is on the ledger and stays there, and a deployment that was reported as reverted is not
    deployed later.
    """

    name = "D1"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for deployments on the ledger, durable receipts and reports."""
        self.made: dict[IntentId, ContractAddress] = {}
        self.reverted: set[IntentId] = set()
        self.confirmed: dict[IntentId, ContractAddress] = {}
        return {Deployed: self._deployed, Reported: self._reported, Recorded: self._recorded}

    def _deployed(self, fact: Deployed) -> None:
        if fact.is_undone:
            del self.made[fact.deployment]
            if self.confirmed.get(fact.deployment) == fact.contract:
                self.accuse(f"{self.show(fact.deployment)} was reported to have made a contract, and was taken back")
            return
        self.judged += 1
        self.chances += 1
        if fact.deployment in self.made:
            self.accuse(f"{self.show(fact.deployment)} was deployed twice")
        if fact.deployment in self.reverted and not fact.is_strange:
            self.accuse(f"{self.show(fact.deployment)} was reported reverted and then deployed")
        self.made[fact.deployment] = fact.contract

    def _reported(self, fact: Reported) -> None:
        self._judge(fact.receipt)

    def _recorded(self, fact: Recorded) -> None:
        if isinstance(fact.record, IntentFinalised):
            self._judge(fact.record.receipt)

    def _judge(self, receipt: Receipt) -> None:
        if receipt.outcome is Outcome.REVERTED:
            self.reverted.add(receipt.intent)
            return
        if receipt.contract is None:
            return
        self.judged += 1
        self.chances += 1
        self.confirmed[receipt.intent] = receipt.contract
        if self.made.get(receipt.intent) != receipt.contract:
            self.accuse(f"{self.show(receipt.intent)} was reported to have made a contract that is not on the ledger")


class ProposalsAreKept(Invariant):
    """D2: a restart from disk contradicts no message sent before about proposed contracts.

    A node that accepted a contract remembers it until the contract exists or is withdrawn; the factory is called with
    the signers that were agreed on, the same ones in every run.
    """

    name = "D2"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for durable records, answers, calls of the factory, and starts."""
        self.kept: dict[NodeName, dict[tuple[NodeName, IntentId], None]] = {node: {} for node in self.terms.nodes}
        self.taken: dict[NodeName, set[IntentId]] = {node: set() for node in self.terms.nodes}
        self.agreed: dict[tuple[NodeName, IntentId], tuple[ContractAddress, ...]] = {}
        return {
            Recorded: self._recorded,
            DeploymentAnswer: self._answered,
            FactoryOrdered: self._ordered,
            Started: self._started,
        }

    def _recorded(self, fact: Recorded) -> None:
        kept = self.kept[fact.node]
        match fact.record:
            case DeploymentProposed(proposal):
                kept[proposal.peer, proposal.deployment] = None
            case ProposalForgotten(peer, deployment):
                kept.pop((peer, deployment), None)
            case ContractTaken(known):
                self.taken[fact.node].add(known.deployment)
                for key in [key for key in kept if key[1] == known.deployment]:
                    del kept[key]
            case DeploymentAgreed(deployment, signers):
                self.agreed[fact.node, deployment] = signers
            case _:
                pass

    def _answered(self, fact: Sent) -> None:
        body = fact.envelope.body
        assert isinstance(body, DeploymentAnswer)
        is_durable = (fact.peer, body.deployment) in self.kept[fact.node] or body.deployment in self.taken[fact.node]
        self.judged += 1
        self.chances += body.verdict is Verdict.ACCEPTED
        if body.verdict is Verdict.ACCEPTED and not is_durable:
            self.accuse(
                f"{fact.node} accepted {self.show(body.deployment)} of {fact.peer}, which its disk does not have"
            )

    def _ordered(self, fact: FactoryOrdered) -> None:
        self.judged += 1
        self.chances += 1
        if self.agreed.get((fact.node, fact.deployment)) != fact.signers:
            self.accuse(f"{fact.node} has {self.show(fact.deployment)} deployed with signers that were not agreed on")

    def _started(self, fact: Started) -> None:
        for peer, deployment in self.kept[fact.node]:
            self.judged += 1
            self.chances += 1
            if (peer, deployment) not in fact.remembered.proposals:
                self.accuse(f"{fact.node} started without {self.show(deployment)}, which {peer} had proposed")


class ContractsReachTheirNodes(Invariant):
    """D3: in the end every node that may know a deployed contract has it, and no other node has.

    These are the node whose user deployed it and those that its genesis names; for a contract in which any node may
    act, all nodes. No node has a contract that a stranger deployed under the id of a deployment.
    """

    name = "D3"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for wanted deployments, the factory's contracts, and the contracts of each node."""
        self.wanted: dict[IntentId, Wanted] = {}
        self.made: dict[ContractAddress, Deployed] = {}
        self.known: list[ContractsKnown] = []
        self.by = {"those that may know it": 0, "the others": 0, "of a stranger": 0}
        return {Wanted: self._wanted, Deployed: self._deployed, ContractsKnown: self.known.append}

    def _wanted(self, fact: Wanted) -> None:
        if fact.intent.contract == NO_CONTRACT:
            self.wanted[fact.intent.id] = fact

    def _deployed(self, fact: Deployed) -> None:
        if fact.is_undone:
            self.made.pop(fact.contract, None)
        else:
            self.made[fact.contract] = fact

    def conclude(self) -> None:
        """Compare each contract with each node."""
        for fact in self.made.values():
            wanted = self.wanted.get(fact.deployment)
            if wanted is None:
                continue
            audience = decode_genesis(wanted.intent.payload).audience
            for node, contracts in self.known:
                may_know = audience is None or node in audience or node == wanted.node
                has_it = fact.contract in contracts
                self.judged += 1
                self.chances += 1
                self.by["of a stranger" if fact.is_strange else KINDS[may_know]] += 1
                if fact.is_strange and has_it:
                    self.accuse(f"{node} has what a stranger deployed as {self.show(fact.deployment)}")
                elif not fact.is_strange and has_it != may_know:
                    words = "has not got" if may_know else "is not to know, and has,"
                    self.accuse(f"{node} {words} the contract of {self.show(fact.deployment)}")
