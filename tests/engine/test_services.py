"""What a node's services answer about a round: signed refusals of leaves, and failures that are none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from rota.domains.base import Failure, Refused
from rota.engine import services as services_module
from rota.engine.services import ASKED_OF_ONE_MAX, VERIFIED_A_STEP, Services
from rota.engine.work_shares import VERIFYING
from rota.evm.worker import OverBudget
from rota.host import Checked, Hosted, UserCall
from rota.keys.secp256k1 import PrivateKey
from rota.keys.signatures import has_signed_leaf, leaf_hash
from rota.machine.tables import Event
from rota.model.digests import approval_digest, refusal_digest, void_leaf
from rota.model.types import (
    Attesters,
    CallFailure,
    CallVerdict,
    ContractAddress,
    Digest,
    Leaf,
    NodeName,
    Party,
    PartySignature,
    RequestId,
    State,
    StateId,
    Transition,
)
from rota.node.events import ForContract
from rota.ports import Unavailable
from rota.sequencer.effects import CheckRound, JudgeFailure, Signed, VerifyEndorsers, VerifyParties
from rota.sequencer.events import EndorsersVerified, FailureJudged, PartiesVerified, RoundChecked
from rota.wire.messages import EndorserSignature
from tests.domains.kit import ALICE, Counting, assembly_order, hosted_by, intent, round_of
from tests.domains.test_hosting import raised

NODE = NodeName("node1")
ALICES = PrivateKey(b"\x07" * 32)


class Endorser:
    """Signs and verifies by writing down what is signed."""

    async def sign_as_endorser(self, contract: ContractAddress, digest: Digest) -> bytes:
        return b"endorser:" + contract.encode() + digest

    def verify_endorsers(self, order: VerifyEndorsers) -> EndorsersVerified:
        return EndorsersVerified(order.request_id, tuple(True for _ in order.signed), order.intent)

    def has_signed(self, verifier: str, leaf: Leaf, valid_until_s: int, signature: bytes) -> bool:
        return has_signed_leaf(verifier, leaf, valid_until_s, signature)


class World:
    """All that the services ask of the rest of a node."""

    def __init__(self, hosted: Hosted) -> None:
        self._hosted = hosted

    def hosted(self, _: ContractAddress) -> Hosted:
        return self._hosted

    async def of(self, *asked: object) -> Mapping[Any, Any]:
        """The states that are held; or the verifiers of parties."""
        if len(asked) == 1:
            return {}
        return dict.fromkeys(cast(Iterable[Party], asked[1]), "0x" + ALICES.address.hex())

    def known(self, _: ContractAddress, __: Party) -> str | None:
        """No party is known before its node is asked."""
        return None

    async def states(self, _: ContractAddress, __: tuple[StateId, ...]) -> tuple[State, ...]:
        return ()


SILENT = Party("m@mallory")


class Silent(World):
    """A world in which one party's node does not say which verifier the party has."""

    async def of(self, *asked: object) -> Mapping[Any, Any]:
        if len(asked) == 2 and SILENT in cast(Iterable[Party], asked[1]):
            raise Unavailable("its node does not say")
        return await super().of(*asked)


@pytest.fixture
def hosted() -> Hosted:
    return hosted_by(Counting(), {"keeper": "n@node1"})


def services_of(world: World, told: list[Event], clock_s: Callable[[], float] = time.monotonic) -> Services:
    anything, endorser = cast(Any, world), cast(Any, Endorser())
    return Services(NODE, anything, endorser, anything, anything, anything, told.append, clock_s=clock_s)


def checked(hosted: Hosted, order: CheckRound) -> RoundChecked:
    """What an endorser's node answers."""
    world, told = World(hosted), list[Event]()

    async def check() -> None:
        services_of(world, told).perform(order)
        while not told:
            await asyncio.sleep(0)

    asyncio.run(check())
    [event] = told
    assert isinstance(event, ForContract)
    assert isinstance(event.event, RoundChecked)
    assert event.event.digest == order.digest
    return event.event


def signed(transition: Transition) -> Transition:
    return replace(transition, signature=ALICES.sign_compact(leaf_hash(transition.leaf, transition.valid_until_s)))


def test_refusal_of_a_leaf_is_signed_for_its_party(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    def endorse(*_: object) -> None:
        raise Refused("no")

    monkeypatch.setattr(Counting, "endorse", endorse)
    made = signed(raised(hosted, 5)[0])
    answer = checked(hosted, round_of(hosted, (made,), (ALICE,)))
    [refusal] = answer.refusals
    digest = refusal_digest(hosted.separator, ALICE, made)
    assert (refusal.leaf, refusal.reason) == (made.leaf, "no")
    assert refusal.signature == b"endorser:" + hosted.contract.address.encode() + digest
    assert answer.signature == b""


def test_refusal_for_want_of_the_partys_signature_is_of_what_was_shown(hosted: Hosted) -> None:
    """A coordinator that puts another signature in its place has the refusal of something that alice did not make."""
    (made,) = raised(hosted, 5)
    true, false = signed(made), replace(made, signature=b"forged")
    [refusal] = checked(hosted, round_of(hosted, (false,), (ALICE,))).refusals
    digests = [refusal_digest(hosted.separator, ALICE, each) for each in (false, true)]
    assert [refusal.signature.endswith(digest) for digest in digests] == [True, False]


def test_empty_transition_needs_the_signature_of_its_party(hosted: Hosted) -> None:
    """It costs its sender nothing, and the coordinator pays for it."""
    (made,) = raised(hosted, 5)
    leaf = void_leaf(hosted.separator, made.intent)
    empty = Transition(made.intent, leaf, valid_until_s=made.valid_until_s)
    assert checked(hosted, round_of(hosted, (signed(empty),), (ALICE,))).signature
    later = replace(signed(empty), valid_until_s=empty.valid_until_s + 1)
    others = replace(empty, signature=signed(made).signature)
    for false in (replace(empty, signature=b"forged"), later, others):
        answer = checked(hosted, round_of(hosted, (false,), (ALICE,)))
        assert (len(answer.refusals), answer.signature) == (1, b"")


def planned(hosted: Hosted, attesters: Attesters, **changes: object) -> CheckRound:
    """A round of one transition that is shown with these attesters."""
    made = signed(raised(hosted, 5)[0])
    return replace(round_of(hosted, (made,), (ALICE,)), attesters=(attesters,), **changes)  # type: ignore[arg-type]


def cosigned(hosted: Hosted, signature: bytes | None = None) -> Attesters:
    made = signed(raised(hosted, 5)[0])
    return Attesters((PartySignature(Party("second@node2"), made.signature if signature is None else signature),))


def test_false_signature_of_a_party_that_the_plan_adds_is_refused_with_the_plan(hosted: Hosted) -> None:
    assert checked(hosted, planned(hosted, cosigned(hosted))).signature
    false = cosigned(hosted, b"forged")
    order = planned(hosted, false)
    [refusal] = checked(hosted, order).refusals
    assert refusal.reason == "the signature is not that of second@node2"
    assert refusal.signature.endswith(refusal_digest(hosted.separator, ALICE, order.transitions[0], false))


def test_endorser_approves_by_a_digest_that_is_not_that_of_the_round(hosted: Hosted) -> None:
    order = planned(hosted, Attesters(endorsers=(NODE,)), asks_approval=True)
    assert checked(hosted, order).signature.endswith(approval_digest(hosted.separator, order.digest))


def test_round_is_signed_only_with_the_approvals_of_the_named_endorsers(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Signed] = []

    def verify(_: object, order: VerifyEndorsers) -> EndorsersVerified:
        asked.extend(order.signed)
        return EndorsersVerified(order.request_id, tuple(each.signature == b"mine" for each in order.signed))

    monkeypatch.setattr(Endorser, "verify_endorsers", verify)
    plan = Attesters(endorsers=(NODE, NodeName("node2")))
    answer = checked(hosted, planned(hosted, plan, approvals=(EndorserSignature(NODE, b"mine"),)))
    [refusal] = answer.refusals
    assert (refusal.reason, refusal.signature) == ("the approval is not that of node2", b"")
    order = planned(hosted, plan, approvals=tuple(EndorserSignature(node, b"mine") for node in plan.endorsers))
    assert {each.digest for each in asked} == {approval_digest(hosted.separator, order.digest)}
    assert checked(hosted, order).signature.endswith(order.digest)


def test_failing_domain_refuses_nothing_and_is_logged(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    def endorse(*_: object) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(Counting, "endorse", endorse)
    made = signed(raised(hosted, 5)[0])
    with capture_logs() as logs:
        answer = checked(hosted, round_of(hosted, (made,), (ALICE,)))
    assert (answer.refusals, answer.signature, answer.unjudged) == ((), b"", (made.leaf,))
    [entry] = logs
    assert (entry["event"], entry["leaf"], str(entry["exc_info"])) == ("domain.check_failed", made.leaf, "out of order")


class Spent:
    """Nobody may have anything judged."""

    async def check(self, *_: object) -> Checked:
        raise OverBudget("node2 has used up what it may have judged for now")


def test_peer_over_its_budget_is_told_that_its_round_is_not_judged(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither signed nor refused, and no leaf is named: it is nobody's fault but that of who asks too much."""
    monkeypatch.setattr(Counting, "runs_code", True)
    made, told = signed(raised(hosted, 5)[0]), list[Event]()
    order = round_of(hosted, (made,), (ALICE,))

    async def run() -> None:
        world = cast(Any, World(hosted))
        services = Services(
            NODE, world, cast(Any, Endorser()), world, world, world, told.append, elsewhere=cast(Any, Spent())
        )
        services.perform(order)
        while not told:
            await asyncio.sleep(0)
        assert "used up" in services.troubles[hosted.contract.address]
        assert services.over_budget_count == 1

    asyncio.run(run())
    answer = RoundChecked(order.peer, order.request_id, digest=order.digest)
    assert told == [ForContract(hosted.contract.address, answer)]


def test_domain_that_fails_to_assemble_is_logged(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    def assemble(*_: object) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(Counting, "assemble", assemble)
    asked = intent(hosted, 1, UserCall(ALICE, "raise", [5]))
    told: list[Event] = []

    async def run() -> None:
        services_of(World(hosted), told).perform(assembly_order([asked]))
        while not told:
            await asyncio.sleep(0)

    with capture_logs() as logs:
        asyncio.run(run())
    [entry] = logs
    assert (entry["event"], entry["intent"]) == ("domain.failed", asked.id)
    assert str(entry["exc_info"]) == "out of order"


LEAF = Leaf(b"l" * 32)
REFUSED_CALL = CallFailure(0, None, CallVerdict.REFUSED, b"no")


@pytest.mark.parametrize(
    ("verdict", "is_worth_retrying"),
    [
        (CallVerdict.REFUSED, False),
        (CallVerdict.NO_CONTRACT, False),
        (CallVerdict.SUCCEEDS, True),
        (CallVerdict.UNKNOWN, True),
    ],
)
def test_call_that_its_target_still_refuses_is_by_default_not_worth_retrying(
    hosted: Hosted, verdict: CallVerdict, is_worth_retrying: bool
) -> None:
    asked, told = intent(hosted, 1, UserCall(ALICE, "raise", [5])), list[Event]()
    order = JudgeFailure(hosted.contract.address, asked, LEAF, replace(REFUSED_CALL, verdict=verdict))
    services_of(World(hosted), told).perform(order)
    assert told == [ForContract(hosted.contract.address, FailureJudged(asked.id, LEAF, is_worth_retrying))]


def test_domain_judges_a_failure_by_the_request_and_one_that_fails_ends_nothing(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_worth_retrying(_: object, failure: Failure[Any]) -> bool:
        assert (failure.sender, failure.function, failure.call) == (ALICE, "raise", REFUSED_CALL)
        raise RuntimeError("out of order")

    monkeypatch.setattr(Counting, "is_worth_retrying", is_worth_retrying)
    asked, told = intent(hosted, 1, UserCall(ALICE, "raise", [5])), list[Event]()
    with capture_logs() as logs:
        services_of(World(hosted), told).perform(JudgeFailure(hosted.contract.address, asked, LEAF, REFUSED_CALL))
    assert told == [ForContract(hosted.contract.address, FailureJudged(asked.id, LEAF, is_worth_retrying=True))]
    [entry] = logs
    assert (entry["event"], str(entry["exc_info"])) == ("domain.failed", "out of order")


def test_signatures_of_endorsers_are_verified(hosted: Hosted) -> None:
    world, told = World(hosted), list[Event]()
    services_of(world, told).perform(VerifyEndorsers(hosted.contract.address, RequestId(1, 1), ()))
    assert told == [ForContract(hosted.contract.address, EndorsersVerified(RequestId(1, 1), ()))]


def test_flood_of_rounds_makes_a_bounded_queue_at_the_domain(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services_module, "ORDERS_MAX", 3)
    made, told = signed(raised(hosted, 5)[0]), list[Event]()

    async def run() -> None:
        services = services_of(World(hosted), told)
        for _ in range(10):
            services.perform(round_of(hosted, (made,), (ALICE,)))
        assert services.troubles == {hosted.contract.address: "3 questions wait for its domain"}
        while len(told) < 3:
            await asyncio.sleep(0)
        await services.close()
        assert services.troubles == {}

    asyncio.run(run())


def test_party_whose_node_does_not_say_its_verifier_holds_no_other_round_up(hosted: Hosted) -> None:
    """It was waited for while the contract's turn was held, and nobody was told why."""
    made = signed(raised(hosted, 5)[0])
    told: list[Event] = []

    async def run() -> None:
        services = services_of(Silent(hosted), told)
        services.perform(round_of(hosted, (made, made), (ALICE, SILENT)))
        services.perform(round_of(hosted, (made,), (ALICE,)))
        while len(told) < 2:
            await asyncio.sleep(0)

    asyncio.run(run())
    answers = [each.event for each in told if isinstance(each, ForContract)]
    assert [answer.unjudged for answer in answers if isinstance(answer, RoundChecked)] == [(made.leaf,), ()]


def test_signatures_of_parties_are_verified_as_far_as_their_verifiers_are_known(hosted: Hosted) -> None:
    true = signed(raised(hosted, 5)[0])
    false = replace(true, leaf=Leaf(b"f" * 32), signature=b"forged")
    other = replace(true, leaf=Leaf(b"o" * 32))
    address, told = hosted.contract.address, list[Event]()

    async def run() -> None:
        order = VerifyParties(address, RequestId(1, 1), (true, false, other), (ALICE, ALICE, SILENT))
        services_of(Silent(hosted), told).perform(order)
        while not told:
            await asyncio.sleep(0)

    asyncio.run(run())
    assert told == [ForContract(address, PartiesVerified(RequestId(1, 1), (false.leaf,), (other.leaf,)))]


@pytest.mark.parametrize("number", [0, 1])
def test_refusal_of_a_copy_is_no_refusal_of_the_same_leaf_shown_as_its_party_made_it(
    hosted: Hosted, number: int
) -> None:
    """A coordinator shows one transition twice in a round: with a signature that is not alice's, and with hers."""
    (made,) = raised(hosted, 5)
    true, false = signed(made), replace(made, signature=b"forged")
    shown = (false, true) if number else (true, false)
    refusals = checked(hosted, round_of(hosted, shown, (ALICE, ALICE))).refusals
    digest = refusal_digest(hosted.separator, ALICE, true)
    assert not any(refusal.signature.endswith(digest) for refusal in refusals)


def many(hosted: Hosted, count: int) -> CheckRound:
    """A round of so many transitions that bear a false signature."""
    made = replace(raised(hosted, 5)[0], signature=b"forged")
    return round_of(hosted, (made,) * count, (ALICE,) * count)


@pytest.mark.parametrize("is_own", [False, True], ids=["to endorse", "to coordinate"])
def test_signatures_of_a_large_round_are_verified_some_at_a_time(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch, is_own: bool
) -> None:
    """A coordinator may show 255 transitions with five signatures each, at 80 microseconds a signature."""
    verified, at_ticks = [0], list[int]()

    def has_signed(*_: object) -> bool:
        verified[0] += 1
        return False

    monkeypatch.setattr(Endorser, "has_signed", has_signed)
    told: list[Event] = []

    async def run() -> None:
        asked = many(hosted, 3 * VERIFIED_A_STEP)
        own = VerifyParties(asked.contract, asked.request_id, asked.transitions, asked.senders)
        services_of(World(hosted), told).perform(own if is_own else asked)
        while not told:
            at_ticks.append(verified[0])
            await asyncio.sleep(0)

    asyncio.run(run())
    assert verified == [3 * VERIFIED_A_STEP]
    assert max(after - before for before, after in pairwise((*at_ticks, *verified))) <= VERIFIED_A_STEP


def test_peer_that_has_signatures_verified_without_end_uses_up_its_share(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each signature takes a second here. Another peer, and our own coordinator, have theirs verified."""
    used_s, now_s = [0.0], [0.0]

    def has_signed(*_: object) -> bool:
        used_s[0] += 1.0
        return False

    monkeypatch.setattr(Endorser, "has_signed", has_signed)
    monkeypatch.setattr(services_module, "thread_time", lambda: used_s[0])
    told: list[Event] = []
    order = many(hosted, 4)

    async def ask(services: Services, peer: NodeName) -> bool:
        told.clear()
        services.perform(replace(order, peer=peer))
        while not told:
            await asyncio.sleep(0)
        [event] = told
        assert isinstance(event, ForContract)
        assert isinstance(event.event, RoundChecked)
        return bool(event.event.refusals)

    async def run() -> None:
        services = services_of(World(hosted), told, lambda: now_s[0])
        liar, other = NodeName("mallory"), NodeName("node2")
        assert [await ask(services, liar) for _ in range(3)] == [True, False, False]
        assert services.over_budget_count == 2
        assert await ask(services, other)
        assert [await ask(services, NODE) for _ in range(3)] == [True, True, True]
        now_s[0] += 4.0 / VERIFYING.cpu_s_each_s
        assert [await ask(services, liar) for _ in range(2)] == [True, False]

    asyncio.run(run())


async def turns() -> None:
    """More turns of the event loop than the tasks need."""
    for _ in range(100):
        await asyncio.sleep(0)


class Unanswered(World):
    """A world in which the nodes of some parties do not answer, and how many questions to them are open."""

    def __init__(self, hosted: Hosted) -> None:
        super().__init__(hosted)
        self.open = 0

    async def of(self, *asked: object) -> Mapping[Any, Any]:
        if len(asked) == 2 and any(each != ALICE for each in cast(Iterable[Party], asked[1])):
            self.open += 1
            await asyncio.Event().wait()
        return await super().of(*asked)


def test_parties_that_a_peer_makes_up_are_asked_for_a_bounded_number_at_a_time(hosted: Hosted) -> None:
    """A coordinator shows 1,275 parties in a request, and may have 256 requests open."""
    made = signed(raised(hosted, 5)[0])
    told: list[Event] = []

    async def run() -> None:
        world = Unanswered(hosted)
        services = services_of(world, told)
        for number in range(2 * ASKED_OF_ONE_MAX // 64):
            strangers = tuple(Party(f"p{number}.{each}@ghost{each}") for each in range(64))
            services.perform(replace(round_of(hosted, (made,) * 64, strangers), peer=NodeName("mallory")))
        await turns()
        assert world.open == ASKED_OF_ONE_MAX
        assert len(told) == ASKED_OF_ONE_MAX // 64, "the others are named as not judged"
        told.clear()
        services.perform(replace(round_of(hosted, (made,), (ALICE,)), peer=NodeName("node2")))
        services.perform(replace(round_of(hosted, (made,), (Party("q@ghost"),)), peer=NodeName("node2")))
        await turns()
        assert world.open == ASKED_OF_ONE_MAX + 1, "another coordinator has questions of its own"
        await services.close()

    asyncio.run(run())
    [answer] = [each.event for each in told if isinstance(each, ForContract)]
    assert isinstance(answer, RoundChecked)
    assert answer.signature


def test_parties_that_are_known_are_not_asked_for(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    questions: list[object] = []
    of_before = World.of

    async def of(world: World, *asked: object) -> Mapping[Any, Any]:
        questions.extend(asked[1:])
        return await of_before(world, *asked)

    monkeypatch.setattr(World, "known", lambda *_: "0x" + ALICES.address.hex())
    monkeypatch.setattr(World, "of", of)
    made = signed(raised(hosted, 5)[0])
    assert checked(hosted, round_of(hosted, (made,), (ALICE,))).signature
    assert questions == []
