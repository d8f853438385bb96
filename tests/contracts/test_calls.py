"""Calls of a transition: all or none, exactly their gas, and no way back into the ledger."""

from __future__ import annotations

import pytest

from rota.calldata import encode_commit, encode_payload
from rota.model.types import Call, ContractAddress, Leaf, StateId, Transition
from rota.sim.state_ledger import SkipReason
from tests.contracts.evm import Reverted, call_data, keccak
from tests.contracts.kit import VALID_UNTIL_S, EndorsedLedger, ids

GAS = 200_000


@pytest.fixture
def ledger() -> EndorsedLedger:
    return EndorsedLedger(1, 1)


@pytest.fixture
def target(ledger: EndorsedLedger) -> ContractAddress:
    return ledger.chain.deploy("Target")


def call_of(target: ContractAddress, function: str, *arguments: object, gas: int = GAS) -> Call:
    return Call(target, gas, call_data("Target", function, *arguments))


def count_of(ledger: EndorsedLedger, target: ContractAddress) -> int:
    found: int = ledger.chain.call("Target", target, "count")
    return found


def test_calls_run_in_order_as_the_ledger(ledger: EndorsedLedger, target: ContractAddress) -> None:
    calls = (call_of(target, "touch"), call_of(target, "setBroken", True), call_of(target, "note"))
    assert ledger.commit(ledger.write(0, outputs=1, calls=calls)).mask == 1
    assert count_of(ledger, target) == 2
    assert ledger.chain.call("Target", target, "caller") == ledger.address


def test_failing_call_undoes_all_calls_and_skips_the_transition(
    ledger: EndorsedLedger, target: ContractAddress
) -> None:
    stored = ledger.write(0, outputs=1)
    ledger.commit(stored)
    made = ledger.write(1, outputs=1)
    calls = (call_of(target, "touch"), call_of(target, "fail"))
    failing = ledger.write(2, inputs=(*ids(stored), *ids(made)), outputs=1, calls=calls)
    dependent = ledger.write(3, inputs=ids(failing))
    other = ledger.write(4, outputs=1, calls=calls[:1])
    found = ledger.commit(made, failing, dependent, other)
    assert found.mask == 0b1001
    assert [(s.reason, s.state) for s in found.skipped] == [
        (SkipReason.CALL_FAILED, StateId(Leaf(bytes(32)), 1)),
        (SkipReason.INPUT_UNAVAILABLE, ids(failing)[0]),
    ]
    assert count_of(ledger, target) == 1
    assert (ledger.unspent(stored.leaf), ledger.unspent(made.leaf), ledger.unspent(failing.leaf)) == (1, 1, 0)
    assert not ledger.is_used(failing.intent)


def test_failed_call_may_succeed_later(ledger: EndorsedLedger, target: ContractAddress) -> None:
    ledger.chain.call("Target", target, "setBroken", True)
    transition = ledger.write(0, outputs=1, calls=(call_of(target, "touch"),))
    assert ledger.commit(transition).mask == 0
    ledger.chain.call("Target", target, "setBroken", False)
    assert ledger.commit(transition).mask == 1


def test_skipped_transition_makes_no_call(ledger: EndorsedLedger, target: ContractAddress) -> None:
    gone = StateId(Leaf(keccak(b"nowhere")), 0)
    ledger.commit(ledger.write(0, inputs=(gone,), calls=(call_of(target, "touch"),)))
    assert count_of(ledger, target) == 0


def test_nothing_is_called_before_the_round_is_authorised(ledger: EndorsedLedger, target: ContractAddress) -> None:
    """Were it, the call would be undone, but the target would have met the ledger as its caller."""
    transition = ledger.write(0, calls=(call_of(target, "burn", gas=GAS),))
    payload = encode_payload((transition,), VALID_UNTIL_S)
    call = encode_commit(payload, ledger.auth(ledger.digest((ledger.write(1),))))
    with pytest.raises(Reverted, match="NotEndorsed"):
        ledger.chain.send(ledger.address, call, gas=120_000)  # too little for the call, so it was not tried


def test_target_without_code_fails(ledger: EndorsedLedger) -> None:
    nobody, precompile = ContractAddress("0x" + "77" * 20), ContractAddress("0x" + "00" * 19 + "02")
    for number, address in enumerate((nobody, precompile)):
        found = ledger.commit(ledger.write(number, calls=(Call(address, GAS),)))
        assert [skip.reason for skip in found.skipped] == [SkipReason.CALL_FAILED]


def test_ledger_itself_is_refused_as_a_target(ledger: EndorsedLedger, target: ContractAddress) -> None:
    calls = (call_of(target, "touch"), Call(ledger.address, GAS, call_data("Endorsed", "runCalls", b"\0")))
    with pytest.raises(Reverted) as reverted:
        ledger.commit(ledger.write(0), ledger.write(1, calls=calls))
    assert str(reverted.value) == "CallToLedger(1,)"


def test_only_the_ledger_runs_calls(ledger: EndorsedLedger, target: ContractAddress) -> None:
    data = call_data("Endorsed", "runCalls", b"\0")
    with pytest.raises(Reverted, match="OnlyLedger"):
        ledger.chain.send(ledger.address, data)
    with pytest.raises(Reverted, match="OnlyLedger"):
        ledger.chain.send(target, call_data("Target", "forward", ledger.address, data))


def test_target_cannot_commit_or_look_while_it_is_called(ledger: EndorsedLedger, target: ContractAddress) -> None:
    inner = ledger.call(ledger.write(0, outputs=1))
    ways = (
        inner,
        call_data("Endorsed", "isUsed", ledger.write(0).intent),
        call_data("Endorsed", "unspentOf", bytes(32)),
    )
    for number, way in enumerate(ways):
        transition = ledger.write(1 + number, calls=(call_of(target, "forward", ledger.address, way, gas=2_000_000),))
        found = ledger.commit(transition)
        assert [skip.reason for skip in found.skipped] == [SkipReason.CALL_FAILED]
        assert not ledger.is_used(ledger.write(0).intent)
    ledger.chain.send(ledger.address, inner)
    assert ledger.is_used(ledger.write(0).intent)


def test_ledger_is_open_again_after_calls_that_succeeded_or_failed(
    ledger: EndorsedLedger, target: ContractAddress
) -> None:
    """The mark against re-entrance must not outlive the calls, also within one transaction."""
    for number, function in ((0, "touch"), (2, "fail")):
        calling = ledger.write(number, calls=(call_of(target, function),))
        plain = ledger.write(number + 1)
        parts: list[bytes] = []
        for each in (calling, plain):
            parts += [encode_payload((each,), VALID_UNTIL_S), ledger.auth(ledger.digest((each,)))]
        found = ledger.chain.call("Target", target, "commitTwice", ledger.address, *parts)
        assert found == (1 if function == "touch" else 0, 1)


def test_call_gets_exactly_its_gas_or_the_whole_transaction_reverts(
    ledger: EndorsedLedger, target: ContractAddress
) -> None:
    transition = ledger.write(0, outputs=1, calls=(call_of(target, "note", gas=100_000),))
    call = ledger.call(transition)
    seen: dict[str, int] = {"TooLittleGas": 0, "halted": 0, "exactly": 0}
    gas_seen = set()
    for gas in range(60_000, 330_000, 1_500):
        checkpoint = ledger.chain.evm.snapshot()
        try:
            ledger.chain.send(ledger.address, call, gas=gas)
            assert ledger.is_used(transition.intent), "a mean submitter must not be able to provoke a skip"
            gas_seen.add(ledger.chain.call("Target", target, "gasSeen"))
            seen["exactly"] += 1
        except Reverted as reverted:
            seen[reverted.name] += 1
        finally:
            ledger.chain.evm.revert(checkpoint)
    print(seen)
    assert min(seen.values()) > 0
    assert len(gas_seen) == 1
    assert 99_000 < gas_seen.pop() < 100_000


def test_call_that_burns_all_its_gas_is_skipped_and_the_rest_goes_on(
    ledger: EndorsedLedger, target: ContractAddress
) -> None:
    found = ledger.commit(ledger.write(0, calls=(call_of(target, "burn"),)), ledger.write(1, outputs=1))
    assert found.mask == 0b10
    assert GAS < found.gas < 2 * GAS


def test_too_little_gas_for_the_second_call_reverts_everything(ledger: EndorsedLedger, target: ContractAddress) -> None:
    calls = (call_of(target, "touch", gas=50_000), call_of(target, "touch", gas=1_000_000))
    with pytest.raises(Reverted) as reverted:
        ledger.commit(ledger.write(0), ledger.write(1, calls=calls), gas=700_000)
    assert str(reverted.value) == "TooLittleGas(1,)"
    assert not ledger.is_used(ledger.write(0).intent)


def test_call_without_gas_fails_and_does_not_revert(ledger: EndorsedLedger, target: ContractAddress) -> None:
    assert ledger.commit(ledger.write(0, calls=(call_of(target, "touch", gas=0),))).mask == 0


def test_return_data_and_revert_data_are_not_copied(ledger: EndorsedLedger, target: ContractAddress) -> None:
    """Were a hundred kilobytes copied, that would cost us tens of thousands of gas that no bound knows of."""
    quiet = ledger.commit(ledger.write(0, calls=(call_of(target, "shout", 0),)))
    loud = ledger.commit(ledger.write(1, calls=(call_of(target, "shout", 100_000),)))
    memory_words = 100_000 // 32 + 1
    memory_gas = 3 * memory_words + memory_words**2 // 512
    assert loud.gas - quiet.gas < memory_gas + 1_000


def test_target_cannot_pose_as_the_frame_of_the_ledger(ledger: EndorsedLedger, target: ContractAddress) -> None:
    """Its revert data is not looked at: neither does it choose the call that is blamed, nor revert the round."""
    named = keccak(b"CallFailed(uint256)")[:4] + (7).to_bytes(32, "big")
    for number, reason in enumerate((named, b"", b"x" * 36)):
        transition = ledger.write(number, calls=(call_of(target, "failWith", reason),))
        found = ledger.commit(transition)
        assert [(s.reason, s.state.output) for s in found.skipped] == [(SkipReason.CALL_FAILED, 0)]


def test_leaf_binds_the_calls(ledger: EndorsedLedger, target: ContractAddress) -> None:
    base = call_of(target, "touch")
    signed = ledger.write(0, calls=(base,))
    others: list[tuple[Call, ...]] = [
        (),
        (base, base),
        (call_of(target, "touch", gas=GAS - 1),),
        (call_of(target, "fail"),),
        (Call(ledger.chain.deploy("Target"), base.gas, base.data),),
    ]
    auth = ledger.auth(ledger.digest((signed,)))
    for calls in others:
        other: Transition = ledger.write(0, calls=calls)
        with pytest.raises(Reverted, match="NotEndorsed"):
            ledger.chain.send(ledger.address, encode_commit(encode_payload((other,), VALID_UNTIL_S), auth))
    assert ledger.commit(signed).mask == 1
