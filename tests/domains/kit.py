"""What the tests of domains share: a small domain, contracts of it, and orders as a core gives them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from rota.domains.base import (
    Assembled,
    Assembly,
    AttestationPlan,
    Deployment,
    Domain,
    NewState,
    Outcome,
    Parked,
    Proposal,
    Refused,
    Rejected,
    Request,
    Reverted,
    party_of,
)
from rota.domains.records import Record, Uint256
from rota.host import (
    AnyDomain,
    ContractDefaults,
    Hosted,
    UserCall,
    deploy,
    genesis_of,
    init,
    load_domains,
    open_genesis,
)
from rota.model.digests import round_digest
from rota.model.genesis import encode_genesis
from rota.model.types import (
    ContractAddress,
    Intent,
    IntentId,
    KnownContract,
    NodeName,
    Party,
    RequestId,
    State,
    StateId,
    Transition,
    node_of,
)
from rota.sequencer.effects import AssembleIntents, CheckRound
from rota.sequencer.events import AssemblyFailed, AssemblyFinished
from rota.wire.messages import Snapshot

ADDRESS = ContractAddress("0x" + "11" * 20)
NOTARY, ALICE, BOB = Party("notary@node1"), Party("alice@node2"), Party("bob@node3")


@dataclass(frozen=True, slots=True)
class Nothing(Record):
    """No arguments."""


@dataclass(frozen=True, slots=True)
class Settings(Record):
    """Who keeps the counter."""

    keeper: Party


@dataclass(frozen=True, slots=True)
class Step(Record):
    """By how much."""

    by: Uint256


@dataclass(frozen=True, slots=True)
class Counter(Record):
    """A number that everybody raises."""

    value: Uint256
    labels = ("value",)


class Counting(Domain[Settings]):
    """One counter a contract; whoever raises it stands on who raised it last."""

    name = "counting"
    constructor = Settings
    configuration = Settings
    functions: ClassVar[Mapping[str, type[Record]]] = {"raise": Step, "wait": Nothing, "fail": Nothing, "flood": Step}
    states = (Counter,)

    def deploy(self, arguments: Record, sender: Party) -> Deployment[Settings]:
        assert isinstance(arguments, Settings)
        keeper = party_of("keeper", arguments.keeper, node_of(sender))
        return Deployment(AttestationPlan.notary(keeper), Settings(keeper), (keeper, sender))

    def init(self, request: Request[Settings]) -> tuple[Party, ...]:
        if isinstance(request.arguments, Step) and not request.arguments.by:
            raise Rejected("by", "must be at least 1")
        return (request.configuration.keeper,)

    def assemble(self, work: Assembly[Settings]) -> Outcome:
        if work.function == "wait":
            return Parked("not today")
        if work.function == "fail":
            raise RuntimeError("out of order")
        assert isinstance(work.arguments, Step)
        if work.function == "flood":
            return Assembled(makes=tuple(NewState(Counter(0), ()) for _ in range(work.arguments.by)))
        found = work.states.where(Counter)
        value = sum(state.record.value for state in found) + work.arguments.by
        if value > 100:
            return Reverted("it would be more than 100")
        raised = NewState(Counter(value), (work.sender,))
        return Assembled(spends=tuple(state.id for state in found), makes=(raised,), info=(NewState(Counter(1), ()),))

    def endorse(self, proposal: Proposal[Settings]) -> None:
        (made,) = proposal.created(Counter)
        spent = sum(state.record.value for state in proposal.spends if isinstance(state.record, Counter))
        if made.value <= spent:
            raise Refused("a counter only rises")


def hosted_by(
    domain: AnyDomain,
    arguments: object,
    sender: Party = NOTARY,
    address: ContractAddress = ADDRESS,
    chain_id: int = 1337,
) -> Hosted:
    """A contract of this domain."""
    deployment = deploy(domain, arguments, sender)
    genesis = genesis_of(domain, deployment, ContractDefaults(chain_id), bytes(32))
    return open_genesis({domain.name: domain}, genesis, address, b"k" * 32)


def known_by(domain: str, arguments: object, sender: Party, address: ContractAddress) -> KnownContract:
    """A contract of an installed domain, as a node takes it in; all who sign in it have its own address."""
    found = load_domains()[domain]
    genesis = genesis_of(found, deploy(found, arguments, sender), ContractDefaults(1337), bytes(32))
    contract = genesis.contract(address)
    return KnownContract(contract, IntentId(bytes(16)), (address,) * len(contract.endorsers), encode_genesis(genesis))


def intent(hosted: Hosted, number: int, call: UserCall) -> Intent:
    """The intent that a user's call becomes."""
    started = init(hosted, call)
    intent_id = IntentId(number.to_bytes(16, "big"))
    return Intent(
        intent_id, ADDRESS, call.sender, started.payload, parties=started.parties, submit_mode=call.submit_mode
    )


def assembly_order(intents: Iterable[Intent], snapshot: Snapshot | None = None, request: int = 1) -> AssembleIntents:
    """A core's order to assemble a slot."""
    return AssembleIntents(ADDRESS, RequestId(1, request), tuple(intents), snapshot or Snapshot(), 7, 1_000, 2_000)


def round_of(hosted: Hosted, transitions: tuple[Transition, ...], senders: tuple[Party, ...]) -> CheckRound:
    """A core's order to check a round."""
    digest = round_digest(hosted.separator, tuple(each.leaf for each in transitions), 1_000)
    return CheckRound(ADDRESS, NodeName("node1"), RequestId(1, 1), digest, transitions, senders, 1_000)


def transition_of(result: AssemblyFinished | AssemblyFailed) -> Transition:
    """What was assembled; the test fails with the reason when nothing was."""
    assert isinstance(result, AssemblyFinished), result
    assert result.transition is not None, result.reason
    return result.transition


def states_after(
    transitions: Iterable[Transition], before: Mapping[StateId, State] | None = None
) -> dict[StateId, State]:
    """What is unspent when these have committed."""
    states = dict(before or {})
    for transition in transitions:
        for reference in transition.inputs:
            del states[reference]
        states.update({state.id: state for state in transition.outputs})
    return states
