"""What the host makes of a domain's answers, and what it lets nobody pass off as one."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import ClassVar

import pytest

from rota import host
from rota.domains.base import Assembled, Assembly, NewState, Outcome, Proposal, Refused, Rejected
from rota.domains.contents import Content, Told, is_info, seal, unseal
from rota.domains.noto.domain import Noto
from rota.engine.drafting import draft
from rota.host import (
    Background,
    Checked,
    ContractDefaults,
    Hosted,
    UserCall,
    assemble,
    check,
    deploy,
    genesis_of,
    init,
    open_genesis,
)
from rota.host.checking import MAKERS_A_STEP, STATES_A_STEP
from rota.model.digests import leaf_of_transition, state_commitment
from rota.model.genesis import encode_genesis, genesis_hash
from rota.model.types import (
    Call,
    ContractAddress,
    IntentId,
    Leaf,
    LockChange,
    LockKind,
    Mode,
    NodeName,
    Party,
    Rotation,
    SequencingChoice,
    State,
    StateId,
    SubmitMode,
    Transition,
)
from rota.sequencer.events import AssemblyFailed, AssemblyFinished
from rota.testing.synthetic import Synthetic
from rota.wire.messages import AssemblyOutcome, Snapshot
from tests.domains.kit import (
    ADDRESS,
    ALICE,
    BOB,
    NOTARY,
    Counter,
    Counting,
    Settings,
    assembly_order,
    hosted_by,
    intent,
    round_of,
    states_after,
    transition_of,
)

NODE1, NODE2 = NodeName("node1"), NodeName("node2")
OTHER = ContractAddress("0x" + "ee" * 20)


@pytest.fixture
def hosted() -> Hosted:
    return hosted_by(Counting(), {"keeper": "notary"})


def raised(hosted: Hosted, *steps: int, held: dict[StateId, State] | None = None) -> tuple[Transition, ...]:
    intents = [intent(hosted, number, UserCall(ALICE, "raise", [by])) for number, by in enumerate(steps)]
    return tuple(map(transition_of, assemble(hosted, assembly_order(intents), held or {}, NODE2)))


def test_a_slots_intents_stand_on_one_another(hosted: Hosted) -> None:
    first, second = raised(hosted, 5, 7)
    assert second.inputs == (first.outputs[0].id,)
    content = unseal(hosted.known, second.outputs[0].content or b"")
    assert content.record == Counter(12)
    assert first.leaf == leaf_of_transition(hosted.separator, first)


def test_the_next_slot_stands_on_the_snapshot_and_leaves_what_is_locked(hosted: Hosted) -> None:
    first, second = raised(hosted, 5, 7)
    snapshot = Snapshot(locks=second.inputs, states=(*first.outputs, *second.outputs))
    order = assembly_order([intent(hosted, 9, UserCall(ALICE, "raise", [1]))], snapshot)
    (third,) = map(transition_of, assemble(hosted, order, {}, NODE2))
    assert third.inputs == (second.outputs[0].id,)


def test_the_host_knows_no_state_that_its_node_may_not_see(hosted: Hosted) -> None:
    held = states_after(raised(hosted, 5))
    order = assembly_order([intent(hosted, 9, UserCall(BOB, "raise", [1]))])
    (made,) = map(transition_of, assemble(hosted, order, held, NodeName("node3")))
    assert made.inputs == ()


def test_outcomes_of_the_domain_are_told_as_events(hosted: Hosted) -> None:
    calls = (
        UserCall(ALICE, "wait"),
        UserCall(ALICE, "fail"),
        UserCall(ALICE, "raise", [101]),
        UserCall(ALICE, "flood", [16]),
    )
    order = assembly_order([intent(hosted, number, each) for number, each in enumerate(calls)])
    parked, failed, reverted, flooded = assemble(hosted, order, {}, NODE2)
    assert isinstance(parked, AssemblyFinished)
    assert (parked.outcome, parked.reason) == (AssemblyOutcome.PARKED, "not today")
    assert isinstance(failed, AssemblyFailed)
    assert failed.reason == "the domain failed: RuntimeError: out of order"
    assert isinstance(reverted, AssemblyFinished)
    assert (reverted.outcome, reverted.reason) == (AssemblyOutcome.REVERTED, "it would be more than 100")
    assert isinstance(flooded, AssemblyFinished)
    assert flooded.reason == "a transition has at most 15 outputs, and this one needs 16"


def test_what_nobody_could_read_is_not_made(hosted: Hosted) -> None:
    class Overflowing(Counting):
        def assemble(self, work: Assembly[Settings]) -> Outcome:
            return Assembled(makes=(NewState(Counter(2**256), ()),))

    order = assembly_order([intent(hosted, 1, UserCall(ALICE, "raise", [1]))])
    (result,) = assemble(replace(hosted, domain=Overflowing()), order, {}, NODE2)
    assert isinstance(result, AssemblyFinished)
    assert result.reason == "Counter.value: must be from 0 to 2^256 - 1"


def test_who_endorses_nothing_here_refuses_everything(hosted: Hosted) -> None:
    (refusal,) = check(hosted, round_of(hosted, raised(hosted, 5), (ALICE,)), {}, NODE2).refusals
    assert refusal.reason == "node2 does not endorse here"


def test_a_payload_that_no_init_made_reverts(hosted: Hosted) -> None:
    for payload in (b"", b"[]", b"raise", b'["raise",["5x"]]', b'["raise",["05"]]', b'["fly",[]]', b"[" * 10_000):
        order = assembly_order([replace(intent(hosted, 1, UserCall(ALICE, "wait")), payload=payload)])
        (result,) = assemble(hosted, order, {}, NODE2)
        assert isinstance(result, AssemblyFinished)
        assert result.outcome is AssemblyOutcome.REVERTED


def test_the_same_request_has_the_same_salts_and_another_has_others(hosted: Hosted) -> None:
    asked = [intent(hosted, 1, UserCall(ALICE, "raise", [1]))]
    first, again, later = (
        transition_of(assemble(hosted, assembly_order(asked, request=request), {}, NODE2)[0]) for request in (1, 1, 2)
    )
    elsewhere = transition_of(assemble(replace(hosted, salt_key=b"o" * 32), assembly_order(asked), {}, NODE2)[0])
    assert first == again
    assert len({first.leaf, later.leaf, elsewhere.leaf}) == 3
    assert len({output.commitment for output in first.outputs}) == 2


def test_the_core_of_an_external_intent_is_known_before_it_is_asked_for(hosted: Hosted) -> None:
    asked = intent(hosted, 1, UserCall(ALICE, "raise", [1], SubmitMode.EXTERNAL))
    core = draft(hosted, asked, {}, NODE2).core
    for request in (1, 2):
        made = transition_of(assemble(hosted, assembly_order([asked], request=request), {}, NODE2)[0])
        assert bytes(made.leaf) == bytes(core)
    for function, reason in (("wait", "not today"), ("fail", "the domain failed: RuntimeError: out of order")):
        with pytest.raises(Rejected, match=reason):
            draft(hosted, intent(hosted, 2, UserCall(ALICE, function, None, SubmitMode.EXTERNAL)), {}, NODE2)


def test_a_state_goes_to_its_readers_to_its_sender_and_to_whoever_checks_it(hosted: Hosted) -> None:
    (made,) = raised(hosted, 5)
    assert [output.distribution for output in made.outputs] == [(NODE1, NODE2), (NODE1, NODE2)]


def test_an_info_is_never_available(hosted: Hosted) -> None:
    (made,) = raised(hosted, 5)
    assert [is_info(output.content or b"") for output in made.outputs] == [False, True]
    (later,) = raised(hosted, 1, held=states_after([made]))
    assert later.inputs == (made.outputs[0].id,)


# Checking.


def test_a_round_is_judged_on_top_of_one_another(hosted: Hosted) -> None:
    checked = check(hosted, round_of(hosted, raised(hosted, 5, 7, 9), (ALICE,) * 3), {}, NODE1)
    assert not checked.refusals
    assert not checked.missing


def test_what_the_domain_refuses_is_refused_alone(hosted: Hosted) -> None:
    first, second = raised(hosted, 5, 7)
    low = raised(hosted, 0 + 1, held={})[0]
    cheat = remade(hosted, low, replace(low, inputs=second.inputs))
    held = states_after([first])
    checked = check(hosted, round_of(hosted, (cheat,), (ALICE,)), held, NODE1)
    assert [refusal.reason for refusal in checked.refusals] == ["a counter only rises"]
    assert [refusal.leaf for refusal in checked.refusals] == [cheat.leaf]
    assert checked.judged == (cheat.leaf,)


def test_a_state_that_is_not_here_is_named(hosted: Hosted) -> None:
    first, second = raised(hosted, 5, 7)
    checked = check(hosted, round_of(hosted, (second,), (ALICE,)), {}, NODE1)
    assert checked.missing == (first.outputs[0].id,)
    assert not checked.refusals


def test_what_is_not_on_the_chain_yet_is_known_from_its_makers(hosted: Hosted) -> None:
    first, second = raised(hosted, 5, 7)
    order = replace(round_of(hosted, (second,), (ALICE,)), makers=(first,))
    assert check(hosted, order, {}, NODE1) == Checked()


def test_a_maker_is_believed_as_far_as_its_leaf_binds_it(hosted: Hosted) -> None:
    first, second = raised(hosted, 5, 7)
    content = seal(Content(Counter(1), (), (ALICE,), bytes(32)))
    low = replace(first.outputs[0], content=content)
    bound = replace(low, commitment=state_commitment(content))
    for output in (low, bound):
        maker = replace(first, outputs=(output, first.outputs[1]))
        order = replace(round_of(hosted, (second,), (ALICE,)), makers=(maker,))
        assert check(hosted, order, {}, NODE1).missing == second.inputs


def test_a_state_is_judged_whose_bytes_are_here_though_the_index_does_not_have_it(hosted: Hosted) -> None:
    first, second = raised(hosted, 5, 7)
    known = Background({first.outputs[0].id: first.outputs[0]}.get)
    assert check(hosted, round_of(hosted, (second,), (ALICE,)), {}, NODE1, known) == Checked()


def test_a_state_is_spent_once_in_a_round(hosted: Hosted) -> None:
    first, second = raised(hosted, 5, 7)
    twin = transition_of(
        assemble(
            hosted, assembly_order([intent(hosted, 8, UserCall(ALICE, "raise", [8]))]), states_after([first]), NODE2
        )[0]
    )
    checked = check(hosted, round_of(hosted, (second, twin), (ALICE, ALICE)), states_after([first]), NODE1)
    assert [(each.intent, each.reason) for each in checked.refusals] == [
        (twin.intent, "a state is spent by an earlier transition")
    ]
    assert checked.judged == (), "a coordinator put the other one before it"


def test_an_empty_transition_is_against_no_rule(hosted: Hosted) -> None:
    (made,) = raised(hosted, 5)
    void = remade(hosted, made, Transition(made.intent, made.leaf, valid_until_s=1_000))
    assert not check(hosted, round_of(hosted, (void,), (ALICE,)), {}, NODE1).refusals


def test_outputs_that_are_not_as_the_kit_makes_them_are_refused(hosted: Hosted) -> None:
    (made,) = raised(hosted, 5)
    state, info = made.outputs
    junk = b'[["Unknown",[]],[],[],"0x' + b"00" * 32 + b'"]'
    wider = (*state.distribution, NodeName("node3"))
    altered = (
        replace(state, content=None),
        replace(state, content=junk, commitment=state_commitment(junk)),
        replace(state, content=b"{", commitment=state_commitment(b"{")),
        replace(state, distribution=wider),
        replace(state, distribution=()),
        replace(state, id=StateId(made.leaf, 1)),
    )
    for each in altered:
        transition = replace(made, outputs=(each, info))
        assert len(check(hosted, round_of(hosted, (transition,), (ALICE,)), {}, NODE1).refusals) == 1, each


def test_coordinator_that_changes_what_no_leaf_binds_gets_no_judgement_of_the_leaf(hosted: Hosted) -> None:
    (made,) = raised(hosted, 5)
    state, info = made.outputs
    altered = (replace(state, content=None), replace(state, distribution=()), replace(state, id=StateId(made.leaf, 1)))
    for each in altered:
        shown = replace(made, outputs=(each, info))
        checked = check(hosted, round_of(hosted, (shown,), (ALICE,)), {}, NODE1)
        assert (len(checked.refusals), checked.judged) == (1, ()), each


def test_refusal_is_a_judgement_only_if_the_domain_refuses_the_transition_alone_too(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator shows makers beside what a transition stands on, or puts others before it in the round."""
    first, second, third = raised(hosted, 5, 7, 9)

    def endorse(_: Counting, proposal: Proposal[Settings]) -> None:
        if len(proposal.available().where(Counter)) > 1:
            raise Refused("there are too many counters")

    monkeypatch.setattr(Counting, "endorse", endorse)
    (stranger,) = raised(hosted, 1)
    stranger = remade(hosted, stranger, replace(stranger, intent=IntentId(b"s" * 16)))
    order = round_of(hosted, (second, third), (ALICE, ALICE))
    beside = check(hosted, replace(order, makers=(first, stranger)), {}, NODE1)
    assert [refusal.leaf for refusal in beside.refusals] == [second.leaf, third.leaf]
    assert beside.judged == ()
    held = states_after([stranger])
    assert check(hosted, replace(order, makers=(first,)), held, NODE1).judged == (second.leaf, third.leaf)


def test_infos_that_are_not_numbered_one_after_the_other_are_refused(hosted: Hosted) -> None:
    (made,) = raised(hosted, 5)
    state, info = made.outputs
    for numbers in ((1,), (0, 0), (0, 2)):
        told = tuple(Told(number, Counter(1)) for number in numbers)
        content = seal(Content(None, told, (), bytes(32)))
        other = replace(info, content=content, commitment=state_commitment(content))
        (refusal,) = check(
            hosted, round_of(hosted, (replace(made, outputs=(state, other)),), (ALICE,)), {}, NODE1
        ).refusals
        assert refusal.reason == "an info is missing, or there twice"


@pytest.mark.parametrize("call", [Call(ADDRESS, 1), Call(ADDRESS, 0, bytes(65_535))], ids=["gas", "bytes"])
def test_calls_pass_only_where_the_domain_makes_calls(hosted: Hosted, call: Call) -> None:
    """One without gas would have whoever commits it pay for its bytes."""
    (made,) = raised(hosted, 5)
    calling = remade(hosted, made, replace(made, calls=(call,)))
    (refusal,) = check(hosted, round_of(hosted, (calling,), (ALICE,)), {}, NODE1).refusals
    assert refusal.reason == "its domain makes no calls"


def test_lock_on_the_ledger_passes_in_no_domain(hosted: Hosted) -> None:
    (made,) = raised(hosted, 5)
    locking = remade(hosted, made, replace(made, lock=LockChange(kind=LockKind.SPENT, lock=bytes(32))))
    (refusal,) = check(hosted, round_of(hosted, (locking,), (ALICE,)), {}, NODE1).refusals
    assert refusal.reason == "its domain changes no locks on the ledger"


def test_calls_take_no_more_gas_than_the_domain_allows(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counting, "calls_gas_max", 7)
    (made,) = raised(hosted, 5)
    calling = remade(hosted, made, replace(made, calls=(Call(ADDRESS, 8),)))
    (refusal,) = check(hosted, round_of(hosted, (calling,), (ALICE,)), {}, NODE1).refusals
    assert refusal.reason == "its calls must take at most 7 gas"


def test_no_transition_calls_the_ledger_that_commits_it(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger reverts the whole commit for such a call: all members of a shared round would return to the pool."""
    monkeypatch.setattr(Counting, "calls_gas_max", 7)
    (made,) = raised(hosted, 5)
    address = ContractAddress(hosted.contract.address.upper().replace("X", "x"))
    calling = remade(hosted, made, replace(made, calls=(Call(OTHER, 1), Call(address, 1))))
    checked = check(hosted, round_of(hosted, (calling,), (ALICE,)), {}, NODE1)
    assert [refusal.reason for refusal in checked.refusals] == ["it calls the ledger that is to commit it"]
    assert checked.judged == (calling.leaf,)


def test_intent_that_would_call_the_ledger_is_not_assembled(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    assemble_before = Counting.assemble

    def assemble_calling(domain: Counting, work: Assembly[Settings]) -> Outcome:
        outcome = assemble_before(domain, work)
        assert isinstance(outcome, Assembled)
        return replace(outcome, calls=(Call(hosted.contract.address, 1),))

    monkeypatch.setattr(Counting, "assemble", assemble_calling)
    order = assembly_order([intent(hosted, 1, UserCall(ALICE, "raise", [5]))])
    [result] = assemble(hosted, order, {}, NODE1)
    assert isinstance(result, AssemblyFinished)
    assert (result.outcome, result.reason) == (AssemblyOutcome.REVERTED, "it calls the ledger that is to commit it")


def test_a_domain_that_fails_while_judging_refuses_nothing(hosted: Hosted) -> None:
    (made,) = raised(hosted, 5)
    broken = remade(hosted, made, replace(made, outputs=made.outputs[1:]))
    checked = check(hosted, round_of(hosted, (broken,), (ALICE,)), {}, NODE1)
    assert (checked.refusals, checked.judged) == ((), ())
    [(leaf, error)] = checked.failures
    assert leaf == broken.leaf
    assert isinstance(error, ValueError)


def test_failure_to_judge_a_transition_alone_makes_no_judgement(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    (made,) = raised(hosted, 5)
    answers = iter([Refused("no"), RuntimeError("out of order")])

    def endorse(_: Counting, __: Proposal[Settings]) -> None:
        raise next(answers)

    monkeypatch.setattr(Counting, "endorse", endorse)
    checked = check(hosted, round_of(hosted, (made,), (ALICE,)), {}, NODE1)
    assert (len(checked.refusals), checked.judged) == (1, ())


# Opening.


def test_a_request_is_validated_before_it_gets_an_id(hosted: Hosted) -> None:
    assert init(hosted, UserCall(ALICE, "raise", {"by": "0x05", "junk": 1})).payload == b'["raise",["5"]]'
    assert init(hosted, UserCall(ALICE, "raise", [1])).parties == (NOTARY,)
    for function, arguments, field in (("raise", {}, "by"), ("raise", [0], "by"), ("fly", None, "function")):
        with pytest.raises(Rejected) as caught:
            init(hosted, UserCall(ALICE, function, arguments))
        assert caught.value.field == field


def test_a_contract_of_an_unknown_domain_or_a_wrong_configuration_is_not_opened() -> None:
    domain = Counting()
    genesis = genesis_of(domain, deploy(domain, {"keeper": "n@node1"}, ALICE), ContractDefaults(5), bytes(32))
    address = ContractAddress(ADDRESS)
    with pytest.raises(Rejected, match="domain: must be one of"):
        open_genesis({}, genesis, address, bytes(32))
    for configuration in (b"{", b"[]", b"[1]", b'["a","b"]'):
        with pytest.raises(Rejected, match="configuration"):
            open_genesis({"counting": domain}, replace(genesis, configuration=configuration), address, bytes(32))
    assert open_genesis({"counting": domain}, genesis, address, bytes(32)).contract.chain_id == 5


MEMBERS = {"members": ["alice@node1", "bob@node2"]}


@pytest.mark.parametrize(
    ("name", "arguments", "wanted", "found"),
    [
        ("pente", MEMBERS, SequencingChoice(), (Mode.RING, Rotation.STICKY, 100)),
        ("pente", MEMBERS, SequencingChoice(rotation=Rotation.STRICT), (Mode.RING, Rotation.STRICT, 100)),
        ("pente", MEMBERS, SequencingChoice(Mode.RING, Rotation.STRICT, 20), (Mode.RING, Rotation.STRICT, 20)),
        ("noto", {"notary": "bank@node1"}, SequencingChoice(Mode.STATIC), (Mode.STATIC, Rotation.STICKY, 100)),
        ("synthetic", MEMBERS, SequencingChoice(Mode.STATIC), (Mode.STATIC, Rotation.STICKY, 100)),
        ("synthetic", MEMBERS, SequencingChoice(Mode.SENDER), (Mode.SENDER, Rotation.STICKY, 100)),
    ],
)
def test_genesis_has_the_terms_that_its_deployment_asks_for(
    name: str, arguments: object, wanted: SequencingChoice, found: tuple[Mode, Rotation, int]
) -> None:
    domains = host.load_domains()
    deployment = deploy(domains[name], arguments, ALICE)
    genesis = genesis_of(domains[name], deployment, ContractDefaults(5), bytes(32), wanted=wanted)
    assert (genesis.mode, genesis.rotation, genesis.range_size) == found
    assert len(genesis.committee) == (1 if genesis.mode is Mode.STATIC else 2)
    other = genesis_of(domains[name], deployment, ContractDefaults(5), bytes(32), wanted=SequencingChoice())
    assert (genesis_hash(encode_genesis(genesis)) == genesis_hash(encode_genesis(other))) is (genesis == other)


@pytest.mark.parametrize(
    ("name", "arguments", "wanted", "flaw"),
    [
        ("pente", MEMBERS, SequencingChoice(Mode.STATIC), "sequencing.mode: must be ring in the domain pente"),
        ("noto", {"notary": "b@node1"}, SequencingChoice(Mode.RING), "sequencing.mode: must be static"),
        (
            "noto",
            {"notary": "b@node1"},
            SequencingChoice(rotation=Rotation.STRICT),
            "sequencing.rotation: must be left",
        ),
        ("synthetic", MEMBERS, SequencingChoice(Mode.SENDER, range_size=5), "sequencing.rangeSize: must be left out"),
        ("pente", MEMBERS, SequencingChoice(range_size=0), "sequencing.rangeSize: must be from 1 to 4294967296 blocks"),
        ("pente", MEMBERS, SequencingChoice(range_size=2**32 + 1), "sequencing.rangeSize: must be from 1 to"),
    ],
)
def test_terms_that_a_domain_does_not_offer_are_refused_by_name(
    name: str, arguments: object, wanted: SequencingChoice, flaw: str
) -> None:
    domain = host.load_domains()[name]
    with pytest.raises(Rejected, match=f"^{flaw}"):
        genesis_of(domain, deploy(domain, arguments, ALICE), ContractDefaults(5), bytes(32), wanted=wanted)


def remade(hosted: Hosted, old: Transition, new: Transition) -> Transition:
    """A transition that was changed, with the leaf that it then has."""
    outputs = tuple(replace(state, id=StateId(old.leaf, number)) for number, state in enumerate(new.outputs))
    leaf = leaf_of_transition(hosted.separator, replace(new, outputs=outputs))
    return replace(
        new, leaf=leaf, outputs=tuple(replace(state, id=StateId(leaf, n)) for n, state in enumerate(outputs))
    )


def test_party_names_are_whole_or_of_the_users_own_node() -> None:
    assert deploy(Counting(), ["keeper"], Party("a@node9")).configuration.keeper == "keeper@node9"
    for wrong in ("", "@", "a@", "@node1", "a@b@c", "a b", "a" * 300):
        with pytest.raises(Rejected, match="keeper: must be a party"):
            deploy(Counting(), [wrong], ALICE)


# Settings of a node for its domains.


class Curious(Synthetic):
    """One that wants something of its node's operator."""

    name = "curious"
    is_for_tests = False
    told: ClassVar[list[Mapping[str, object]]] = []

    def set_up(self, settings: Mapping[str, object]) -> None:
        self.told.append(settings)


def test_domain_is_given_what_its_nodes_operator_has_set(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("curious", f"{__name__}:Curious", host.ENTRY_POINTS)
    monkeypatch.setattr(host, "entry_points", lambda **_: [entry])
    monkeypatch.setattr(Curious, "told", [])
    monkeypatch.setattr(EntryPoint, "load", lambda _: Curious)
    host.load_domains({"curious": {"workers": 2}, "another": {"workers": 3}})
    host.load_domains()
    assert Curious.told == [{"workers": 2}, {}]


def test_setting_that_a_domain_does_not_have_is_refused_by_its_name() -> None:
    with pytest.raises(Rejected, match=r"^synthetic\.workers: must be left out: synthetic has no settings$"):
        host.load_domains({"synthetic": {"for_tests": True, "workers": 2}})


def test_domain_for_tests_is_there_only_where_an_operator_says_so() -> None:
    assert "synthetic" not in host.load_domains({})
    assert "noto" in host.load_domains({})
    for wrong in (False, 1, "true"):
        assert "synthetic" not in host.load_domains({"synthetic": {"for_tests": wrong}})
    assert "synthetic" in host.load_domains({"synthetic": {"for_tests": True}})


def test_snapshot_does_not_take_the_place_of_what_our_own_index_has(hosted: Hosted) -> None:
    """A coordinator that tells another content of a confirmed state would have the party sign its invention."""
    made = raised(hosted, 5)
    held = states_after(made)
    real = made[0].outputs[0]
    content = unseal(hosted.known, real.content or b"")
    invented = seal(replace(content, record=Counter(50)))
    for commitment in (real.commitment, state_commitment(invented)):
        false = replace(real, content=invented, commitment=commitment)
        order = assembly_order([intent(hosted, 9, UserCall(ALICE, "raise", [7]))], Snapshot((), (false,)))
        (assembled,) = map(transition_of, assemble(hosted, order, held, NODE2))
        assert unseal(hosted.known, assembled.outputs[0].content or b"").record == Counter(12)


def test_snapshot_does_not_tell_of_a_state_whose_content_is_not_its_commitment(hosted: Hosted) -> None:
    made = raised(hosted, 5)
    real = made[0].outputs[0]
    content = unseal(hosted.known, real.content or b"")
    false = replace(real, content=seal(replace(content, record=Counter(50))))
    order = assembly_order([intent(hosted, 9, UserCall(ALICE, "raise", [7]))], Snapshot((), (false,)))
    (assembled,) = map(transition_of, assemble(hosted, order, {}, NODE2))
    assert assembled.inputs == ()


def steps_in(work: Generator[None, None, object]) -> int:
    """In how many steps it is done."""
    count = 1
    with contextlib.suppress(StopIteration):
        while True:
            next(work)
            count += 1
    return count


def test_large_snapshot_and_many_makers_are_taken_some_at_a_time(hosted: Hosted) -> None:
    (made,) = raised(hosted, 3)
    (state,) = (each for each in made.outputs if each.content is not None and not is_info(each.content))
    many = tuple(replace(state, id=StateId(Leaf(number.to_bytes(32, "big")), 0)) for number in range(1_000))
    order = assembly_order([intent(hosted, 9, UserCall(ALICE, "raise", [7]))], Snapshot((), many))
    assert steps_in(host.assembling(hosted, order, {}, NODE2)) == 1 + 1_000 // STATES_A_STEP + 1
    makers = tuple(replace(made, leaf=Leaf(number.to_bytes(32, "big"))) for number in range(320))
    round_order = replace(round_of(hosted, (made,), (ALICE,)), makers=makers)
    assert steps_in(host.checking(hosted, round_order, {}, NODE1)) == 1 + 320 // MAKERS_A_STEP + 1


def test_unknown_function_is_refused_with_the_ones_that_there_are() -> None:
    hosted = hosted_by(Noto(), {"notary": "bank@node1", "notaryMode": "basic"}, Party("bank@node1"))
    alice = Party("alice@node1")
    with pytest.raises(Rejected, match=r"^function: must be one of .*burn.* of noto, not 'mints'$"):
        init(hosted, UserCall(alice, "mints", {}))
    with pytest.raises(Rejected, match=r"of noto, not 'balanceOf'; ptx_call asks for it, without a transaction$"):
        init(hosted, UserCall(alice, "balanceOf", {}))
    with pytest.raises(Rejected, match=r"one of balanceOf.* not 'mint'; ptx_sendTransaction or ptx_prepareTransaction"):
        host.call(hosted, UserCall(alice, "mint", {}), {}, NODE1)
