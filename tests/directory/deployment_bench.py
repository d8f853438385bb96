"""A node at which contracts are deployed, and to which others propose theirs; the chain has what a test puts there."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rota.directory.deployment_events import ProposalJudged
from rota.directory.effects import CallFactory, JudgeProposal, Proposal, TakeInContract
from rota.machine.effects import Effect, ReplyToUser
from rota.machine.events import CancelRequested, ConnectionLost, ConnectionMade, IntentSubmitted
from rota.machine.tables import Event
from rota.model.blocks import ChainBlock, FactoryDeployment
from rota.model.genesis import Genesis, encode_genesis, genesis_hash
from rota.model.types import (
    NO_CONTRACT,
    AwaitedLeaf,
    ContractAddress,
    Intent,
    IntentId,
    Mode,
    NodeName,
    Party,
    RequestId,
    Rotation,
)
from rota.node.events import ForContract
from rota.wire.messages import DeploymentAnswer, DeploymentProposal, Verdict
from tests.node.node_bench import NodeBench
from tests.sequencer.kit import GENESIS_S, A, B, C, intent_id

D = NodeName("D")
ID = intent_id("deploy")
MADE = ContractAddress("0x" + "cc" * 20)
STRANGERS = ContractAddress("0x" + "dd" * 20)
SIGNERS = {node: ContractAddress(f"0x{number:040x}") for number, node in enumerate((A, B, C, D), 1)}
GENESIS = Genesis(
    "synthetic",
    b"{}",
    (Party("a@A"), Party("b@B"), Party("c@C")),
    (A, B),
    (A, B),
    2,
    Mode.RING,
    Rotation.STICKY,
    100,
    16,
    1337,
    bytes(32),
)
STATIC = replace(GENESIS, committee=(B,), endorsers=(B,), threshold=1, members=(Party("b@B"),), mode=Mode.STATIC)
ALONE = replace(GENESIS, committee=(A,), endorsers=(A,), threshold=1, members=())


def deployed(of: Genesis = GENESIS, intent: IntentId = ID, **changes: object) -> FactoryDeployment:
    """What the factory tells when it has deployed what was agreed on, or something a little different."""
    signers = tuple(SIGNERS[node] for node in of.endorsers)
    found = FactoryDeployment(intent, MADE, genesis_hash(encode_genesis(of)), signers, of.threshold)
    return replace(found, **changes)  # type: ignore[arg-type]


@dataclass
class DeploymentBench(NodeBench):
    """Node A. Its own keys and domain answer at once, unless `silent` says otherwise."""

    contracts = ()

    def computed(self, effect: Effect) -> list[Event]:
        if isinstance(effect, JudgeProposal):
            return [self.judged(effect)]
        return super().computed(effect)

    def judged(self, order: JudgeProposal, verdict: Verdict = Verdict.ACCEPTED, reason: str = "") -> ProposalJudged:
        return ProposalJudged(order.peer, order.request_id, order.deployment, verdict, SIGNERS[A], reason)

    # Our own user.

    def deploy(
        self,
        genesis: Genesis = GENESIS,
        intent: IntentId = ID,
        key: str = "",
        depends_on: tuple[IntentId, ...] = (),
        awaits: tuple[AwaitedLeaf, ...] = (),
    ) -> list[ReplyToUser]:
        """A user of A wants a contract; what it was told at once."""
        known = len(self.all(ReplyToUser))
        wanted = Intent(intent, NO_CONTRACT, Party("a@A"), encode_genesis(genesis), depends_on, (), key, awaits=awaits)
        self.tell(ForContract(NO_CONTRACT, IntentSubmitted("user", wanted)))
        return self.all(ReplyToUser)[known:]

    def cancel(self, intent: IntentId = ID) -> list[ReplyToUser]:
        known = len(self.all(ReplyToUser))
        self.tell(ForContract(NO_CONTRACT, CancelRequested("canceller", intent)))
        return self.all(ReplyToUser)[known:]

    def asked(self, peer: NodeName) -> list[DeploymentProposal]:
        return self.said(DeploymentProposal, peer)

    def answer(self, peer: NodeName, verdict: Verdict = Verdict.ACCEPTED, reason: str = "") -> None:
        """A peer answers what it was asked last; only A and B endorse."""
        question = self.asked(peer)[-1]
        address = SIGNERS[peer] if peer == B else None
        self.hear(peer, DeploymentAnswer(question.request_id, question.deployment, verdict, address, reason))

    def agreed(self, genesis: Genesis = GENESIS) -> None:
        """All nodes have answered twice."""
        self.deploy(genesis)
        for _ in range(2):
            for peer in genesis.nodes:
                if peer != A:
                    self.answer(peer)

    def calls(self) -> list[CallFactory]:
        return self.all(CallFactory)

    def state(self, intent: IntentId = ID) -> str:
        """By its own word, as a user would be told."""
        return self.node.explain(intent).state

    # Others.

    def propose(
        self,
        peer: NodeName,
        genesis: Genesis = GENESIS,
        intent: IntentId = ID,
        is_agreed: bool = False,
        number: int = 1,
    ) -> list[DeploymentAnswer]:
        """A peer wants us to have a contract; what it was answered at once."""
        known = len(self.said(DeploymentAnswer, peer))
        signers = tuple(SIGNERS[node] for node in genesis.endorsers) if is_agreed else ()
        body = DeploymentProposal(RequestId(7, number), intent, encode_genesis(genesis), NO_CONTRACT, signers)
        self.hear(peer, body, NO_CONTRACT)
        return self.said(DeploymentAnswer, peer)[known:]

    def kept(self) -> list[Proposal]:
        return list(self.node.deployments.proposals.kept.values())

    def connect(self, *peers: NodeName) -> None:
        for peer in peers:
            self.tell(ConnectionMade(peer))

    def lose(self, peer: NodeName) -> None:
        self.tell(ConnectionLost(peer))

    # The chain.

    def put_on_chain(self, *found: FactoryDeployment, time_s: int = GENESIS_S) -> ChainBlock:
        """The next block has these deployments, and the node hears of it."""
        self.mine(time_s=time_s)
        self.chain[-1] = replace(self.chain[-1], deployments=found)
        self.show_head()
        return self.chain[-1]

    def taken_in(self) -> list[ContractAddress]:
        return [each.known.contract.address for each in self.all(TakeInContract)]
