"""What a commit costs: never more than the bound that is computed from its contents, and no more than was promised."""

from __future__ import annotations

import json
import random

import pytest
from click.testing import CliRunner

from rota.bench import gas as bench
from rota.bench.gas import MeasuredLedger, Writer, measure_load
from rota.calldata import (
    AuthCost,
    Entry,
    encode_auth,
    encode_cancel_lock,
    encode_commit,
    encode_delegate_lock,
    encode_payload,
    encode_spend_lock,
    gas_bound,
    permitted_payload,
)
from rota.cli.bench import gas as gas_command
from rota.cli.main import main
from rota.model.digests import round_digest
from rota.model.types import Call, ContractAddress, Digest, Leaf, LockChange, LockKind, Preparation, StateId, Transition
from rota.sim.state_ledger import Commit, StateLedger
from tests.contracts.evm import BOB, Chain, call_data, keccak
from tests.contracts.kit import VALID_UNTIL_S, ids, write
from tests.contracts.random_rounds import CONDITION, RandomRounds, runs_well

TARGET = ContractAddress("0x" + "7a" * 20)


def commit_with_bound(ledger: MeasuredLedger, entries: tuple[Entry, ...], body: bool = False) -> tuple[int, int]:
    """Commit with the bound as the gas limit: a transaction that needs more at any moment fails. Gas and bound."""
    payload = encode_payload(entries, VALID_UNTIL_S, body)
    leaves = tuple(entry.leaf if isinstance(entry, Transition) else entry for entry in entries)
    digest = round_digest(ledger.separator, leaves, VALID_UNTIL_S)
    signatures = {address: key.sign_compact(digest) for address, key in ledger.keys.items()}
    count = len(signatures)
    auth = encode_auth(tuple(ledger.keys), signatures, count)
    bound = gas_bound(entries, VALID_UNTIL_S, AuthCost.of_signatures(count, count), body)
    gas, _ = ledger.call(payload, encode_commit(payload, auth, CONDITION), BOB, gas_limit=bound)
    return gas, bound


def target_code() -> bytes:
    chain = Chain()
    code = chain.evm.get_code(chain.deploy("Target"))
    assert code is not None
    return code


@pytest.mark.parametrize(
    ("contract", "seed", "attempts"),
    [
        ("Endorsed", 1, 100),
        ("Lockable", 1, 100),
        pytest.param("Endorsed", 2, 1_000, marks=pytest.mark.slow),
        pytest.param("Lockable", 3, 1_000, marks=pytest.mark.slow),
    ],
)
def test_random_rounds_never_need_more_than_their_bound(contract: str, seed: int, attempts: int) -> None:
    ledger = MeasuredLedger.with_endorsers(1 + seed, contract)
    ledger.others[TARGET] = target_code()
    has_locks = contract == "Lockable"
    writer = RandomRounds(random.Random(seed), ledger.separator, TARGET, threshold=1, has_locks=has_locks)
    model = StateLedger()
    used: list[float] = []
    for _ in range(attempts):
        attempt = writer.attempt()
        gas, bound = commit_with_bound(ledger, attempt.entries, body=writer.chance.random() < 0.3)
        order = Commit(Digest(b""), attempt.entries, VALID_UNTIL_S, caller=BOB, condition=CONDITION)
        model.commit(order, VALID_UNTIL_S, lambda transition: runs_well(transition, is_target_broken=False))
        writer.available = list(model.unspent)
        writer.delegates = {lock: record.delegate for lock, record in model.locks.items()}
        assert gas <= bound
        used.append(gas / bound)
    print(f"of the bound, random rounds used {sum(used) / len(used):.0%} on average and {max(used):.1%} at most")
    assert max(used) > 0.5, "a bound that nothing comes near says little"


# What a lock of a notary token costs, each time as a transaction of its own on cold storage.
LOCK_GAS = {"set": 116_000, "delegate": 31_500, "spend": 81_500, "cancel": 80_500}


def test_gas_of_locks_stays_below_its_target() -> None:
    lock = keccak(b"lock")
    ledger = MeasuredLedger.with_endorsers(1, "Lockable")
    coin = write(ledger.separator, 0, outputs=1)
    spend, cancel = (write(ledger.separator, 1, outputs=size, page=b"lock") for size in (2, 1))
    change = LockChange(
        kind=LockKind.SET, lock=lock, delegate=BOB, expires_at_s=VALID_UNTIL_S, spends=spend.leaf, cancels=cancel.leaf
    )
    commit_with_bound(ledger, (coin,))
    found = {"set": commit_with_bound(ledger, (write(ledger.separator, 2, inputs=ids(coin), lock=change),))[0]}
    stored = dict(ledger.storage)
    for name, made, encode in (("spend", spend, encode_spend_lock), ("cancel", cancel, encode_cancel_lock)):
        ledger.storage = dict(stored)
        args = permitted_payload(made)
        found[name], _ = ledger.call(args, encode(lock, args), BOB, locks=(lock,))
        assert all(not ledger.storage[slot] for slot in bench.lock_slots(lock)), "the record is cleared"
    ledger.storage = dict(stored)
    args = permitted_payload(spend)
    found["delegate"], _ = ledger.call(args, encode_delegate_lock(lock, TARGET), BOB, locks=(lock,))
    print(found)
    assert all(found[name] <= most for name, most in LOCK_GAS.items()), found


@pytest.mark.parametrize("load", [bench.group_transition, bench.chained_transfer, bench.unspent_transfer, bench.mint])
@pytest.mark.parametrize("endorsers", [1, 10])
def test_bound_of_ordinary_rounds_is_within_a_factor_of_two_and_a_half(load: bench.Load, endorsers: int) -> None:
    for size in (1, 10, 100):
        ledger = MeasuredLedger.with_endorsers(endorsers)
        writer = Writer(ledger.separator)
        commit_with_bound(ledger, tuple(load(writer) for _ in range(size)))
        writer.start_round()
        gas, bound = commit_with_bound(ledger, tuple(load(writer) for _ in range(size)))
        print(f"{load.__name__}, {endorsers} endorsers, {size}: {gas} gas, bound {bound}, factor {bound / gas:.2f}")
        assert gas <= bound <= 2.5 * gas


@pytest.mark.parametrize("count", [1, 40, 255])
def test_bare_leaves_alone_stay_below_their_bound(count: int) -> None:
    ledger = MeasuredLedger.with_endorsers(10)
    gas, bound = commit_with_bound(ledger, tuple(Leaf(keccak(b"%d" % n)) for n in range(count)))
    assert gas <= bound <= 1.2 * gas


def test_chain_of_which_any_part_was_committed_before_stays_below_its_bound() -> None:
    """The bound counts one word and one spending from storage for a chain, wherever it is cut."""
    for first in range(6):
        for last in range(first, 7):
            ledger = MeasuredLedger.with_endorsers(1)
            writer = Writer(ledger.separator)
            chain = tuple(bench.group_transition(writer) for _ in range(6))
            commit_with_bound(ledger, tuple(t if n < first else t.leaf for n, t in enumerate(chain)))
            commit_with_bound(ledger, tuple(t if n < last else t.leaf for n, t in enumerate(chain)))
            gas, bound = commit_with_bound(ledger, chain)
            assert gas <= bound


def lock_rounds(separator: bytes) -> tuple[tuple[Entry, ...], ...]:
    """Many new locks, each of them replaced with another delegate, delegated, and ended."""
    locks = [keccak(b"lock %d" % number) for number in range(30)]
    leaf = Leaf(b"l" * 32)
    new = {"kind": LockKind.SET, "spends": leaf, "cancels": leaf}
    kinds: tuple[dict[str, object], ...] = (
        {**new, "delegate": BOB, "expires_at_s": VALID_UNTIL_S},
        {**new, "presumed": BOB, "delegate": TARGET, "expires_at_s": 2**64 - 1},
        {"kind": LockKind.DELEGATE, "presumed": TARGET, "delegate": BOB},
        {"kind": LockKind.SPENT, "presumed": TARGET},
        {"kind": LockKind.CANCELLED, "presumed": BOB},
    )
    return tuple(
        tuple(
            write(separator, n, lock=LockChange(lock=lock, **what), page=b"locks %d" % place)  # type: ignore[arg-type]
            for n, lock in enumerate(locks)
        )
        for place, what in enumerate(kinds)
    )


def test_rounds_at_the_limits_stay_below_their_bound() -> None:
    ledger = MeasuredLedger.with_endorsers(32, "Lockable")
    ledger.others[TARGET] = target_code()
    separator = ledger.separator
    many = tuple(write(separator, number, outputs=15, info=15, page=b"%d" % number) for number in range(30))
    made = tuple(ids(each)[number % 15] for number, each in enumerate(many))
    gone = tuple(StateId(Leaf(keccak(b"gone %d" % n)), 0) for n in range(15))
    tiny, loud = Call(ContractAddress("0x" + "77" * 20), 0), Call(TARGET, 40_000, bytes(20_000))
    burn = Call(TARGET, 1_000_000, call_data("Target", "burn"))
    touch = Call(TARGET, 60_000, call_data("Target", "touch"))
    prepared = Preparation(BOB, CONDITION)
    rounds: tuple[tuple[Entry, ...], ...] = (
        many,
        (write(separator, 100, reads=made[:15], inputs=made[15:], outputs=15),),
        many,
        (write(separator, 101, reads=made[:15], inputs=(*made[:14], gone[0])),),
        tuple(write(separator, 110 + n, inputs=made[:14] + gone[:1], page=b"%d" % (n % 2)) for n in range(20)),
        (write(separator, 140, calls=(touch,) * 40),),
        (write(separator, 141, calls=(*(touch,) * 10, tiny)),),
        (write(separator, 142, calls=(loud,) * 3), write(separator, 143, calls=(burn,)), write(separator, 144)),
        tuple(write(separator, 150 + n, outputs=1, preparation=prepared) for n in range(50)),
        *lock_rounds(separator),
    )
    for entries in rounds:
        for body in (False, True):
            gas, bound = commit_with_bound(ledger, entries, body)
            assert gas <= bound


# The table of the ledger specification: gas per transition in rounds of 1, 50 and 200.
TARGETS = (
    (bench.group_transition, 3, {1: 95_000, 50: 7_000, 200: 5_700}),
    (bench.chained_transfer, 1, {1: 88_000, 50: 27_500, 200: 26_500}),
    (bench.unspent_transfer, 1, {1: 88_000, 50: 33_000, 200: 32_500}),
    (bench.mint, 1, {1: 80_000, 50: 26_000, 200: 25_000}),
)


@pytest.mark.slow
@pytest.mark.parametrize(("load", "endorsers", "targets"), TARGETS)
def test_gas_per_transition_stays_below_its_target(load: bench.Load, endorsers: int, targets: dict[int, int]) -> None:
    for size, target in targets.items():
        found = measure_load(load, endorsers, size)
        print(f"{load.__name__}, rounds of {size}: {found:,.0f} of {target:,}")
        assert found <= target


@pytest.fixture(scope="module")
def figures() -> bench.GasFigures:
    """Few sizes, of which few rounds fill whole pages."""
    return bench.measure_gas(round_sizes=(64, 128), group_sizes=(1, 3))


def test_figures_have_stable_names(figures: bench.GasFigures) -> None:
    found = bench.as_json(figures)
    assert set(found) == {"group", "group_hashed", "notary", "mint", "paladin"}
    assert found["paladin"] == {"group": 149_190, "notary": 113_120, "mint": 85_014}
    group, notary, mint = found["group"], found["notary"], found["mint"]
    assert isinstance(group, dict)
    assert isinstance(notary, dict)
    assert isinstance(mint, dict)
    assert set(group) == {"1", "3"}
    assert set(notary) == {"chained", "unspent"}
    assert all(set(each) == {"64", "128"} for each in (*group.values(), *notary.values(), mint))
    assert group["3"]["64"] > group["1"]["64"] > group["1"]["128"] > 0


def test_command_prints_a_table_and_json(monkeypatch: pytest.MonkeyPatch, figures: bench.GasFigures) -> None:
    zeto = {"Zeto_Anon": {"transfer": {1: 325_611.0, 10: 141_736.6}, "mint": {1: 82_229.0}}}
    monkeypatch.setattr(bench, "measure_gas", lambda progress: progress("everything") or figures)
    monkeypatch.setattr(gas_command, "measure_zeto_gas", lambda **_: zeto)
    table = CliRunner().invoke(main, ("bench", "gas"), prog_name="rota")
    assert table.exit_code == 0
    assert all(name in table.stdout for name in ("group 3", "hashed 3", "chained", "unspent", "mint", "149190"))
    told = CliRunner().invoke(main, ("bench", "gas", "--json"), prog_name="rota")
    shown = json.loads(told.stdout)
    assert shown.pop("zeto") == {
        "Zeto_Anon": {"transfer": {"1": 325_611, "10": 141_737}, "mint": {"1": 82_229}},
        "published": {"Zeto_Anon": 326_583, "Zeto_AnonNullifier": 2_005_587},
    }
    assert all(each in table.stdout for each in ("Zeto_Anon transfer", "325611", "326583"))
    assert shown == bench.as_json(figures)
    assert "measuring everything ..." in told.stderr


def test_command_says_what_zero_knowledge_tokens_need(
    monkeypatch: pytest.MonkeyPatch, figures: bench.GasFigures
) -> None:
    monkeypatch.setattr(bench, "measure_gas", lambda **_: figures)
    monkeypatch.setattr("rota.prover.curve.importlib.util.find_spec", lambda _: None)
    table = CliRunner().invoke(main, ("bench", "gas"), prog_name="rota")
    assert table.exit_code == 0
    assert "rota[zeto]" in table.stdout
    assert "rota[zeto]" in str(gas_command.measure()["zeto"])
