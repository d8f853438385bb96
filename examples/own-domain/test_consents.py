"""The domain by itself, and on simulated networks whose nodes crash, lie and are late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable
from dataclasses import replace

import pytest
from consents import Configuration, Consent, Consents

from rota.domains.base import Known, NewState, Proposal, Refused
from rota.model.types import Contract, ContractAddress, IntentId, Leaf, NodeName, Party, StateId
from rota.testing import Ended, Scene, UserCall, Workload, findings, simulate

CLINIC, LABORATORY, STRANGER = Party("clinic@A"), Party("laboratory@B"), Party("stranger@C")
MEMBERS = (CLINIC, LABORATORY)
FRESH = Consent("record 7", CLINIC, LABORATORY, "study", 3, 3)
NODES = (NodeName("A"), NodeName("B"))
CONTRACT = Contract(ContractAddress("0x" + "c0" * 20), NODES, NODES, 2)


# What an endorser signs and what not.


def judge(sender: Party, new: Consent, *old: Consent) -> None:
    """As an endorser's node has it judged; `Refused` when it must not be signed."""
    spends = tuple(Known(StateId(Leaf(bytes(32)), n), each, b"", MEMBERS) for n, each in enumerate(old))
    makes = (NewState(new, MEMBERS),)
    Consents().endorse(Proposal(CONTRACT, Configuration(MEMBERS), b"", IntentId(bytes(16)), sender, spends, (), makes))


def test_members_grant_recipients_use_and_holders_withdraw() -> None:
    judge(CLINIC, FRESH)
    judge(LABORATORY, replace(FRESH, left=2), FRESH)
    judge(CLINIC, replace(FRESH, left=0), replace(FRESH, left=2))


@pytest.mark.parametrize(
    ("sender", "new", "old"),
    [
        (STRANGER, replace(FRESH, holder=STRANGER), ()),
        (LABORATORY, FRESH, ()),
        (CLINIC, replace(FRESH, left=2), ()),
        (CLINIC, replace(FRESH, granted=0, left=0), ()),
        (STRANGER, replace(FRESH, left=2), (FRESH,)),
        (LABORATORY, replace(FRESH, left=3), (FRESH,)),
        (LABORATORY, replace(FRESH, left=1), (FRESH,)),
        (LABORATORY, replace(FRESH, left=0), (FRESH,)),
        (LABORATORY, replace(FRESH, left=2, purpose="profit"), (FRESH,)),
        (LABORATORY, replace(FRESH, left=2, granted=9), (FRESH,)),
        (CLINIC, replace(FRESH, left=1), (FRESH,)),
        (CLINIC, replace(FRESH, left=0), (replace(FRESH, left=0),)),
        (LABORATORY, replace(FRESH, left=2), (FRESH, FRESH)),
    ],
    ids=[
        "a stranger grants",
        "in another's name",
        "granted half used",
        "granted for nothing",
        "a stranger uses",
        "used without counting",
        "used twice at once",
        "used up at once",
        "for another purpose",
        "granted more meanwhile",
        "half withdrawn",
        "withdrawn twice",
        "two at once",
    ],
)
def test_what_is_against_the_rules_is_not_signed(sender: Party, new: Consent, old: tuple[Consent, ...]) -> None:
    with pytest.raises(Refused):
        judge(sender, new, *old)


# Networks under faults.


def calls(scene: Scene) -> Generator[UserCall, IntentId | None, None]:
    """Clinics grant, laboratories use more often than they may, and some consents are withdrawn in between."""
    number = 0
    while True:
        number += 1
        holder, recipient = scene.random.sample([Party(f"registry@{name}") for name in scene.nodes], 2)
        named = {"subject": f"record {number}", "purpose": "study"}
        yield UserCall(holder, "grant", {**named, "recipient": recipient, "uses": 2})
        for _ in range(3):
            yield UserCall(recipient, "use", {**named, "holder": holder})
        if scene.random.random() < 0.3:
            yield UserCall(holder, "withdraw", {**named, "recipient": recipient})


def must_hold(ended: Ended) -> Iterable[str]:
    """What the ledger did is what is left, for every consent that nobody has withdrawn."""
    calls = [ended.calls[intent] for intent in ended.committed]
    happened = Counter((call.function, call.arguments["subject"]) for call in calls if isinstance(call.arguments, dict))
    for state in ended.unspent:
        consent = state.record
        assert isinstance(consent, Consent), "the only state of this domain"
        used = happened["use", consent.subject]
        if used > consent.granted:
            yield f"{consent.subject} was used {used} times"
        if not happened["withdraw", consent.subject] and consent.left != consent.granted - used:
            yield f"{consent.subject}: {consent.left} left after {used} uses"


def test_no_consent_is_used_once_too_often_whoever_crashes() -> None:
    members = [f"registry@{name}" for name in ("A", "B", "C")]
    workload = Workload(Party("registry@A"), {"members": members, "threshold": 2}, calls, must_hold)
    reports = simulate(Consents(), workload, seeds=range(2), minutes=0.2)
    assert not findings(reports), findings(reports)
    assert all(report.confirmed > 10 for report in reports)
    assert any(report.reverted for report in reports), "somebody tried to use one once too often"
