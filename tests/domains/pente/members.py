"""A privacy group for tests: each member's node with its own memory; transitions commit when the test says so."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from rota.domains.pente import Pente
from rota.evm.private_evm import PrivateEvm
from rota.host import Background, Checked, Hosted, UserCall, assemble, call, check, receipt
from rota.ledger.artifacts import Artifact, artifact_from_json, load_artifact
from rota.model.digests import keccak, leaf_of_transition, state_commitment
from rota.model.types import NodeName, Party, State, StateId, SubmitMode, Transition, node_of
from rota.sequencer.events import AssemblyFailed, AssemblyFinished
from rota.testing.workloads.pente import call_of, entry_of, errors_of
from rota.wire.messages import Snapshot
from tests.domains.kit import assembly_order, hosted_by, intent, round_of

ALICE, BOB, CAROL, MALLORY = Party("alice@node1"), Party("bob@node2"), Party("carol@node3"), Party("mallory@node9")
ARTIFACTS = Path(__file__).parents[2] / "contracts" / "artifacts"


class Reverts(Exception):
    """The intent was reverted at its assembly."""


class Fails(Exception):
    """It could not be assembled now."""


@cache
def playground() -> Artifact:
    """A contract that does what private contracts may do."""
    return artifact_from_json((ARTIFACTS / "Playground.json").read_text(encoding="utf-8"))


def token() -> Artifact:
    """The token that Rota ships."""
    return load_artifact("PrivateToken")


def address_of(party: Party) -> str:
    """The verifier of a party in these tests."""
    return "0x" + keccak(party.encode())[12:].hex()


VERIFIERS = {party: address_of(party) for party in (ALICE, BOB, CAROL, MALLORY)}


class Members:
    """The nodes of a group, and the ledger that they share."""

    def __init__(self, members: tuple[Party, ...] = (ALICE, BOB, CAROL), **configuration: object) -> None:
        written = {"evmVersion": "cancun", **configuration}
        self.hosted = hosted_by(Pente(PrivateEvm), {"members": list(members), "configuration": written}, ALICE)
        self.nodes: dict[NodeName, Hosted] = {
            node: self.hosted.at_another_node() for node in self.hosted.contract.committee
        }
        self.unspent: dict[StateId, State] = {}
        self.every: dict[StateId, State] = {}
        self.number = 0

    # What users ask for.

    def deploy(
        self, sender: Party, artifact: Artifact, arguments: object = None, gas: int = 0, more: object = None
    ) -> Transition:
        """A deployment, assembled."""
        asked = {
            "bytecode": "0x" + artifact.bytecode.hex(),
            "function": json.dumps(entry_of(artifact, "constructor")),
            "input": json.dumps(arguments or []),
            "gas": gas,
            "errors": errors_of(artifact),
            **(more if isinstance(more, dict) else {}),
        }
        return self.assemble(sender, "deploy", asked)

    def invoke(
        self, sender: Party, to: str, artifact: Artifact, name: str, *arguments: object, gas: int = 0
    ) -> Transition:
        """A call in a transaction, assembled."""
        return self.assemble(sender, "invoke", call_of(to, artifact, name, *arguments, gas=gas))

    def ask(self, asker: Party, to: str, artifact: Artifact, name: str, *arguments: object) -> dict[str, Any]:
        """A call without a transaction."""
        node = node_of(asker)
        asked = UserCall(asker, "call", call_of(to, artifact, name, *arguments))
        answer = call(self.nodes[node], asked, self.held(node), node, self.background())
        assert isinstance(answer, dict)
        return answer

    # What nodes do.

    def assemble(
        self, sender: Party, function: str, arguments: object, mode: SubmitMode = SubmitMode.AUTO
    ) -> Transition:
        """What the sender's node makes of a request, on the latest states."""
        return self.assemble_on(sender, function, arguments, Snapshot(), mode)

    def assemble_on(
        self,
        sender: Party,
        function: str,
        arguments: object,
        snapshot: Snapshot,
        mode: SubmitMode = SubmitMode.AUTO,
        background: Background | None = None,
    ) -> Transition:
        """The same on a coordinator's snapshot."""
        self.number += 1
        node = node_of(sender)
        hosted = self.nodes.get(node, self.hosted)
        asked = intent(hosted, self.number, UserCall(sender, function, arguments, mode))
        order = assembly_order([asked], snapshot, request=self.number)
        (result,) = assemble(hosted, order, self.held(node), node, background or self.background())
        if isinstance(result, AssemblyFailed):
            raise Fails(result.reason)
        assert isinstance(result, AssemblyFinished)
        if result.transition is None:
            raise Reverts(result.reason)
        return result.transition

    def check(self, node: NodeName, transitions: tuple[Transition, ...], senders: tuple[Party, ...]) -> Checked:
        """An endorser's judgement of a round."""
        order = round_of(self.hosted, transitions, senders)
        return check(self.nodes[node], order, self.held(node), node, self.background())

    def refusals(self, transition: Transition, sender: Party) -> list[str]:
        """Why endorsers do not sign."""
        found = [self.check(node, (transition,), (sender,)) for node in self.nodes]
        assert not any(checked.missing for checked in found)
        return [refusal.reason for checked in found for refusal in checked.refusals]

    def commit(self, transition: Transition) -> None:
        """The ledger takes it, and its states reach all members."""
        for reference in transition.inputs:
            del self.unspent[reference]
        assert all(reference in self.unspent for reference in transition.reads)
        made = {state.id: state for state in transition.outputs}
        self.unspent.update(made)
        self.every.update(made)

    def settle(self, sender: Party, transition: Transition) -> Transition:
        """Endorse and commit."""
        assert self.refusals(transition, sender) == []
        self.commit(transition)
        return transition

    def held(self, node: NodeName) -> dict[StateId, State]:
        """What a node holds: only members' nodes are on the list of a state."""
        return {ref: state for ref, state in self.unspent.items() if node in state.distribution}

    def background(self) -> Background:
        """What a node's store has of spent states, and who is who."""
        return Background(self.every.get, VERIFIERS)

    def restart(self, node: NodeName) -> None:
        """The node forgets what is not in its store."""
        self.nodes[node] = self.hosted.at_another_node()

    def receipt(self, transition: Transition, node: NodeName) -> dict[str, Any]:
        """What a node tells of a transition."""
        return receipt(self.nodes[node], transition.as_seen_by(node), self.every, node)

    def deployed(self, sender: Party, artifact: Artifact, arguments: object = None) -> str:
        """The address of a new contract, endorsed and committed."""
        transition = self.settle(sender, self.deploy(sender, artifact, arguments))
        address: str = self.receipt(transition, node_of(sender))["receipt"]["contractAddress"]
        return address

    def done(self, sender: Party, to: str, artifact: Artifact, name: str, *arguments: object) -> Transition:
        """A call in a transaction, endorsed and committed."""
        return self.settle(sender, self.invoke(sender, to, artifact, name, *arguments))


def with_content(hosted: Hosted, transition: Transition, number: int, content: bytes) -> Transition:
    """The same transition with another content of one output, and the leaf that goes with it."""
    outputs = tuple(
        replace(state, content=content, commitment=state_commitment(content)) if n == number else state
        for n, state in enumerate(transition.outputs)
    )
    leaf = leaf_of_transition(hosted.separator, replace(transition, outputs=outputs))
    moved = tuple(replace(state, id=StateId(leaf, n)) for n, state in enumerate(outputs))
    return replace(transition, leaf=leaf, outputs=moved)
