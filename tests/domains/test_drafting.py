"""Drafts: the same thing when it is bound, openings that cannot lie, and bindings that hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.calldata import settlement_condition
from rota.domains.base import Rejected
from rota.domains.noto import Noto
from rota.domains.noto.operations import lock_id_of
from rota.engine import drafting
from rota.engine.drafting import LEGS_MAX, Draft, condition_of, draft, examine, read_opening
from rota.host import Binding, assemble, bound
from rota.model.digests import Core, state_commitment
from rota.model.types import ContractAddress, Intent, Preparation, RequestId, SubmitMode, Transition, node_of
from rota.ports import Unavailable
from rota.sequencer.events import AssemblyFailed, AssemblyFinished
from tests.domains.kit import ADDRESS, ALICE, BOB, NOTARY, assembly_order
from tests.domains.town import Town

SETTLEMENT = ContractAddress("0x" + "5e" * 20)
CONDITION = b"\x0c" * 32
NODE1, NODE2, NODE3 = (node_of(party) for party in (NOTARY, ALICE, BOB))


class Lender:
    """Alice has ten in a lock for bob, which only the settlement may end."""

    def __init__(self, delegate: str = SETTLEMENT) -> None:
        self.town = Town(Noto(), {"notary": NOTARY, "options": {"publicLocks": False}}, NOTARY)
        self.town.do(NOTARY, "mint", [ALICE, 10])
        made = self.town.do(ALICE, "createTransferLock", [ALICE, [{"to": BOB, "amount": 10}]])
        self.lock_id = "0x" + lock_id_of(self.town.hosted.separator, made.intent).hex()
        if delegate:
            self.town.do(ALICE, "delegateLock", [self.lock_id, delegate])
        self.town.number += 1

    @property
    def intent(self) -> Intent:
        return self.town.intent(ALICE, "spendLock", [self.lock_id], SubmitMode.EXTERNAL)

    def draft(self) -> Draft:
        return draft(self.town.hosted, self.intent, self.town.held(NODE2), NODE2)

    def assembled(self, intent: Intent) -> Transition | str:
        (result,) = assemble(self.town.hosted, assembly_order([intent]), self.town.held(NODE2), NODE2)
        assert isinstance(result, AssemblyFinished)
        return result.transition or result.reason


def test_what_is_bound_is_what_was_drafted_under_the_condition() -> None:
    lender = Lender()
    drafted = lender.draft()
    made = lender.assembled(bound(drafted.intent, Binding(drafted.core, CONDITION)))
    assert isinstance(made, Transition)
    assert made.preparation == Preparation(SETTLEMENT, CONDITION)
    assert [state.commitment for state in made.outputs] == [state.commitment for state in drafted.transition.outputs]
    assert lender.town.refusal(made, ALICE) == ""


def test_what_has_changed_since_it_was_drafted_is_reverted() -> None:
    lender = Lender()
    drafted = lender.draft()
    other = bound(drafted.intent, Binding(Core(bytes(32)), CONDITION))
    assert lender.assembled(other) == (
        "what it stands on has changed since it was drafted, and so has what it does; draft it anew"
    )


def test_what_anybody_may_commit_cannot_be_held_to_a_condition() -> None:
    lender = Lender(delegate="")
    drafted = lender.draft()
    made = lender.assembled(bound(drafted.intent, Binding(drafted.core, CONDITION)))
    assert made == "it has no committer, and only who alone may commit it can be held to a condition"


@pytest.mark.parametrize("ending", [b"]", b',["zz","00"]]', b',["00"]]', b",{}]", b',["00","00"],1]'])
def test_a_binding_that_cannot_be_read_is_reverted(ending: bytes) -> None:
    lender = Lender()
    intent = lender.draft().intent
    written = intent.payload[:-1] + ending
    made = lender.assembled(replace(intent, payload=written))
    if ending == b"]":
        assert isinstance(made, Transition)
    else:
        assert made == "payload: must be what this domain's init makes"


def test_a_reader_works_out_the_core_itself_and_sees_what_it_would_get() -> None:
    lender = Lender()
    drafted = lender.draft()
    opening = read_opening(drafted.opening_for(NODE3))
    assert opening.contract == ADDRESS
    assert opening.references == drafted.transition.inputs
    examined = examine(lender.town.hosted, opening, {}, NODE3)
    assert examined.core == drafted.core
    assert examined.told["transfers"] == [{"to": BOB, "amount": "10"}]


def test_an_opening_has_no_byte_that_its_reader_may_not_see() -> None:
    lender = Lender()
    drafted = lender.draft()
    hidden = [state.content for state in drafted.transition.outputs if NODE3 not in state.distribution]
    shown = drafted.opening_for(NODE3)
    assert hidden
    assert not any(content is not None and content in shown for content in hidden)


def test_an_opening_that_shows_another_state_than_it_binds_is_rejected() -> None:
    lender = Lender()
    drafted = lender.draft()
    opening = read_opening(drafted.opening_for(NODE3))
    first, *others = opening.transition.outputs
    assert first.content is not None
    richer = replace(first, content=first.content.replace(b"10", b"99"))
    lie = replace(opening, transition=replace(opening.transition, outputs=(richer, *others)))
    with pytest.raises(Rejected, match="opening: must show state 0 as it is bound, and shows another"):
        examine(lender.town.hosted, lie, {}, NODE3)
    # Bound otherwise, it is another core, to which nobody is bound.
    assert richer.content is not None
    rebound = replace(richer, commitment=state_commitment(richer.content))
    other = replace(opening, transition=replace(opening.transition, outputs=(rebound, *others)))
    assert examine(lender.town.hosted, other, {}, NODE3).core != drafted.core


@pytest.mark.parametrize("content", [b"", b"nothing of the kind", bytes(100)])
def test_what_is_no_opening_is_rejected(content: bytes) -> None:
    with pytest.raises(Rejected, match="opening: must be one that a node made of a draft"):
        read_opening(content)


def test_a_condition_names_what_is_bound_and_has_bounds() -> None:
    core, other = Core(b"\x01" * 32), Core(b"\x02" * 32)
    legs = ((ADDRESS, (core,)), (SETTLEMENT, (other,)))
    assert condition_of(legs, ADDRESS, core) == settlement_condition(legs)
    with pytest.raises(Rejected, match=f"legs: must have 0x{'02' * 32} of {ADDRESS}"):
        condition_of(legs, ADDRESS, other)
    for wrong in ((), ((ADDRESS, (core,)),) * (LEGS_MAX + 1)):
        with pytest.raises(Rejected, match="legs: must be 1 to 32"):
            condition_of(wrong, ADDRESS, core)
    with pytest.raises(Rejected, match=r"legs\[1\].cores: must be 1 to 255, not 0"):
        condition_of((legs[0], (SETTLEMENT, ())), ADDRESS, core)


def test_draft_on_states_that_are_on_their_way_is_unavailable_for_now() -> None:
    lender = Lender()
    lacking = AssemblyFailed(RequestId(1, 1), lender.intent.id, "it is not here yet", lacks_states=True)
    with pytest.raises(Unavailable, match="it is not here yet"):
        drafting.drafted(lender.town.hosted, lender.intent, [lacking])
    with pytest.raises(Rejected, match="it is not here yet"):
        drafting.drafted(lender.town.hosted, lender.intent, [replace(lacking, lacks_states=False)])
