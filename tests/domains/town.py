"""A town with one contract: its parties ask, their nodes assemble, the notary's judges, and the ledger commits."""

from __future__ import annotations

from collections.abc import Mapping

from rota.domains.available import readable
from rota.domains.records import Record
from rota.host import AnyDomain, Hosted, UserCall, assemble, call, check, receipt
from rota.model.types import ContractAddress, Intent, NodeName, Party, State, StateId, SubmitMode, Transition, node_of
from rota.sequencer.events import AssemblyFinished
from tests.domains.kit import ADDRESS, assembly_order, hosted_by, intent, round_of


class Reverts(Exception):
    """The intent was reverted at its assembly."""


class Town:
    """Everything happens at once and in order; a node holds what it may see."""

    def __init__(
        self,
        domain: AnyDomain,
        arguments: object,
        deployer: Party,
        address: ContractAddress = ADDRESS,
        chain_id: int = 1337,
    ) -> None:
        self.hosted: Hosted = hosted_by(domain, arguments, deployer, address, chain_id)
        self.states: dict[StateId, State] = {}
        self.every: dict[StateId, State] = {}
        self.number = 0

    def held(self, node: NodeName) -> dict[StateId, State]:
        """The unspent states that a node may see."""
        return {ref: state for ref, state in self.states.items() if node in state.distribution}

    def assemble(
        self, sender: Party, function: str, arguments: object, mode: SubmitMode = SubmitMode.AUTO
    ) -> Transition:
        """What the sender's node makes of a request."""
        self.number += 1
        asked = self.intent(sender, function, arguments, mode)
        node = node_of(sender)
        (result,) = assemble(self.hosted, assembly_order([asked], request=self.number), self.held(node), node)
        assert isinstance(result, AssemblyFinished), result
        if result.transition is None:
            raise Reverts(result.reason)
        return result.transition

    def intent(self, sender: Party, function: str, arguments: object, mode: SubmitMode) -> Intent:
        """The intent of the current number."""
        return intent(self.hosted, self.number, UserCall(sender, function, arguments, mode))

    def refusal(self, transition: Transition, sender: Party) -> str:
        """Why the endorsers do not sign a transition, or nothing."""
        order = round_of(self.hosted, (transition,), (sender,))
        for node in self.hosted.contract.endorsers:
            checked = check(self.hosted, order, self.held(node), node)
            assert not checked.missing
            if checked.refusals:
                return checked.refusals[0].reason
        return ""

    def commit(self, transition: Transition) -> None:
        """The ledger takes it."""
        for reference in transition.inputs:
            del self.states[reference]
        self.states.update({state.id: state for state in transition.outputs})
        self.every.update(self.states)

    def do(self, sender: Party, function: str, arguments: object, mode: SubmitMode = SubmitMode.AUTO) -> Transition:
        """Assemble, endorse, commit."""
        transition = self.assemble(sender, function, arguments, mode)
        assert not self.refusal(transition, sender)
        self.commit(transition)
        return transition

    def ask(self, asker: Party, function: str, arguments: object = None) -> object:
        """What the asker's node answers."""
        return call(self.hosted, UserCall(asker, function, arguments), self.held(node_of(asker)), node_of(asker))

    def receipt(
        self, transition: Transition, node: NodeName, addresses: Mapping[Party, str] | None = None
    ) -> dict[str, object]:
        """What a node tells of a transition; with addresses, to clients that know parties by them."""
        known: Mapping[StateId, State] = {ref: s for ref, s in self.every.items() if node in s.distribution}
        return receipt(self.hosted, transition.as_seen_by(node), known, node, addresses=addresses)

    def records(self, transition: Transition, node: NodeName) -> list[Record]:
        """The records that a node sees in what a transition makes."""
        contents = [readable(self.hosted.known, state.as_seen_by(node)) for state in transition.outputs]
        seen = [content for content in contents if content is not None]
        told = sorted((told for content in seen for told in content.infos), key=lambda told: told.number)
        return [content.record for content in seen if content.record] + [each.record for each in told]
