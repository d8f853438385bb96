"""Whole networks under random faults: safe throughout, and finished when the faults stop."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest

from rota.chain.submitters import AccountChoice
from rota.machine.effects import ReplyToUser
from rota.machine.events import IntentSubmitted
from rota.model.types import Leaf, Mode, Outcome, Rotation, SubmitMode, node_of
from rota.node.intake import Intake
from rota.sequencer.issuing import Issuing
from rota.sim.coverage import Place, counting, every_place, untaken
from rota.sim.invariants.endings import SETTLED_AFTER_MS
from rota.sim.plan import FAULTS, Settings, draw_plan
from rota.sim.submissions import Submission
from rota.sim.swarm import NOTHING_JUDGED, PROBES_EVERY_MS, PROBES_FOR_MS, SELDOM_PROBES_EVERY_MS, Swarm

SHORT = Settings(minutes=1 / 4)
SEEDS = [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))]
TRACE_DIGEST = """
from rota.sim.fingerprint import Fingerprint
from rota.sim.plan import FAULTS, Settings
from rota.sim.swarm import Swarm

fingerprint = Fingerprint()
Swarm(11, Settings(nodes=4, contracts=2, minutes=0.25, faults=FAULTS), fingerprint).play()
print(fingerprint.hexdigest())
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_seed_is_clean(seed: int) -> None:
    report = Swarm(seed, SHORT).play()
    assert report.violations == []
    assert report.intents > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_seed_is_clean_with_an_account_for_each_contract(seed: int) -> None:
    swarm = Swarm(seed, replace(SHORT, contracts=3, accounts=AccountChoice.BY_CONTRACT))
    report = swarm.play()
    assert report.violations == []
    signers = set(swarm.world.ledger.next_nonce)
    assert not signers & set(swarm.plan.names)
    assert len(signers) > len(swarm.plan.names)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_stranger_may_take_a_nonce_of_any_account(seed: int) -> None:
    settings = Settings(minutes=1 / 4, contracts=2, faults=("stranger", "crash"), accounts=AccountChoice.BY_CONTRACT)
    assert Swarm(seed, settings).play().violations == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [*range(100, 104), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(104, 120))]
)
def test_longer_seed_is_clean(seed: int) -> None:
    report = Swarm(seed, Settings(minutes=1)).play()
    assert report.violations == []


@pytest.mark.slow
def test_member_that_has_demoted_itself_does_not_send_delegations_in_a_circle() -> None:
    """Seed 67: A, back from an outage, named B, which named A, 500 times a second, until B demoted A (L3)."""
    assert Swarm(67, Settings()).play().violations == []


@pytest.mark.slow
def test_same_seed_plays_the_same_run() -> None:
    first, second = Swarm(7, SHORT).play(), Swarm(7, SHORT).play()
    assert first == second


@pytest.mark.slow
def test_trace_does_not_depend_on_the_hash_seed_of_the_process() -> None:
    def digest(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        played = subprocess.run(
            [sys.executable, "-c", TRACE_DIGEST], env=environment, capture_output=True, text=True, check=True
        )
        return played.stdout

    assert digest("1") == digest("2") != ""


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("rotation", list(Rotation))
def test_settings_overrule_the_seed(mode: Mode, rotation: Rotation) -> None:
    settings = Settings(
        nodes=4, contracts=2, committee=3, minutes=1 / 20, rotation=rotation, mode=mode, faults=("crash",)
    )
    swarm = Swarm(3, settings)
    plan = swarm.plan
    assert (len(plan.names), len(plan.contracts)) == (4, 2)
    assert {(contract.mode, contract.rotation) for contract in plan.contracts} == {(mode, rotation)}
    assert {len(contract.committee) for contract in plan.contracts} == {1 if mode is Mode.STATIC else 3}
    assert swarm.play().violations == []


def test_default_seed_has_hundreds_of_intents_and_many_faults() -> None:
    plans = [draw_plan(seed, Settings()) for seed in range(60)]
    probes = SETTLED_AFTER_MS // SELDOM_PROBES_EVERY_MS + PROBES_FOR_MS // PROBES_EVERY_MS
    assert sum(len(plan.submissions) for plan in plans) / len(plans) + probes >= 500
    assert sum(len(plan.faults) for plan in plans) / len(plans) >= 50


def test_no_faults_means_none() -> None:
    assert Swarm(3, Settings(minutes=1 / 10, faults=())).play().faults == 0


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_alone_is_survived(fault: str) -> None:
    report = Swarm(11, Settings(minutes=1 / 2, faults=(fault,))).play()
    assert report.violations == []
    assert report.faults > 0


def test_core_that_trips_over_its_own_assertion_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def trip(_: Swarm) -> None:
        raise AssertionError("we erred")

    monkeypatch.setattr(Swarm, "_calm", trip)
    (found,) = Swarm(3, Settings(minutes=1 / 20, faults=())).play().violations
    assert str(found) == "assertion: AssertionError: we erred"


def test_seed_in_which_no_intent_is_accepted_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Intake, event: IntentSubmitted) -> ReplyToUser:
        return ReplyToUser(event.reply_to, event.intent.id, "not today")

    monkeypatch.setattr(Intake, "take", refuse)
    (found,) = Swarm(3, Settings(minutes=1 / 20, faults=())).play().violations
    assert found.invariant == NOTHING_JUDGED


def test_rows_that_machines_take_are_counted_and_the_others_told() -> None:
    taken: Counter[Place] = Counter()
    with counting(taken):
        Swarm(3, Settings(minutes=1 / 20, faults=())).play()
    before = Counter(taken)
    Swarm(3, Settings(minutes=1 / 20, faults=())).play()
    assert taken == before
    missing = untaken(taken)
    assert 0 < len(missing) < len(every_place())
    assert Place("Coordinator", "Idle", "TransactionsDelegated", "is_acceptable") not in missing


def swarm_of_external() -> Swarm:
    """One user asks for a prepared transition and does not commit it, and nothing goes wrong."""
    plan = draw_plan(3, Settings(minutes=1 / 20, mode=Mode.RING, faults=(), nodes=3, contracts=1))
    (contract,) = plan.contracts
    wish = Submission(1, 100, contract.committee[0], contract.address, "prepare", mode=SubmitMode.EXTERNAL)
    return Swarm(3, plan=replace(plan, submissions=(wish,)))


def test_prepared_transition_that_its_user_does_not_commit_waits_for_its_user() -> None:
    swarm = swarm_of_external()
    assert swarm.play().violations == []
    assert swarm.calm is not None
    assert swarm.calm.waiting == ()
    (receipt,) = swarm.world.receipts[swarm.intents[1].id]
    assert receipt.outcome is Outcome.REVERTED


@pytest.mark.slow
def test_external_intent_that_is_never_issued_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Issuing, "prepare", lambda _issuing, _transaction: None)
    swarm = swarm_of_external()
    swarm.world.judge.leave_out(("L2",))
    assert {violation.invariant for violation in swarm.play().violations} >= {"L1", "L6"}
    assert swarm.calm is not None
    assert swarm.calm.waiting == (swarm.intents[1].id,)


def test_run_with_liars_ends_when_the_last_block_is_on_every_honest_disk() -> None:
    """Seed 204777: A's index was at block 88 and its disk at 87, and the two were judged as one (L5)."""
    swarm = Swarm(3, Settings(nodes=4, contracts=1, liars=1, minutes=0.1, faults=()))
    swarm.open()
    world = swarm.world
    world.run_until(2_000)
    node = next(node for name, node in world.nodes.items() if name not in world.liars)
    node.disk_delay_ms = 100
    world.chain.mine()
    while node.core is not None and node.core.height < world.ledger.height:
        world.run_until(world.now_ms + 1)
    assert node.disk.height < world.ledger.height
    assert not swarm.has_caught_up()
    swarm.let_catch_up()
    assert swarm.has_caught_up()
    assert node.disk.height == world.ledger.height


def test_intent_that_has_used_its_versions_is_not_taken_to_wait_for_nothing() -> None:
    """Seed 142 on 89924175: one that had 17 versions under faults got one in 37 s then, and was reset three times."""
    swarm = Swarm(2, Settings(nodes=3, contracts=1, minutes=0.1, faults=()))
    swarm.open()
    while not (waiting := swarm.waiting_for_nothing()):
        swarm.world.run_until(swarm.world.now_ms + 1)
    intent = next(each for each in swarm.intents.values() if each.id == waiting[0])
    signed = swarm.world.nodes[node_of(intent.sender)].disk.signed
    signed.update((intent.id, Leaf(bytes([number] * 32))) for number in range(15))
    assert intent.id in swarm.waiting_for_nothing()
    signed.add((intent.id, Leaf(bytes([15] * 32))))
    assert intent.id not in swarm.waiting_for_nothing()
