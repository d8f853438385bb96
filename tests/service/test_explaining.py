"""Where a transaction is that no machine has in memory: ended, or in a contract that sleeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.model.types import NO_CONTRACT, ContractAddress, Leaf, NodeName, Outcome, Receipt
from rota.node.explanation import MEANINGS
from rota.ports import NumberedReceipt, StoredTransaction
from rota.sequencer.sender_transaction import State
from rota.service.explain.explaining import explain_stored
from tests.store.kit import FIRST, a_prepared, a_transition, an_intent, intent_id

NODE = NodeName("node1")
STORED = StoredTransaction(an_intent(1), 1, 1_000)
PLACE = NumberedReceipt(7, intent_id(1), FIRST, Leaf(b"leaf"), "private", "noto", 2_000)
CONFIRMED = Receipt(intent_id(1), Outcome.CONFIRMED)
REVERTED = Receipt(intent_id(1), Outcome.REVERTED, "no money")


@pytest.mark.parametrize(
    ("stored", "receipt", "place", "state", "waits_for", "detail"),
    [
        (STORED, CONFIRMED, PLACE, Outcome.CONFIRMED, "", ""),
        (STORED, REVERTED, PLACE, Outcome.REVERTED, "", "no money"),
        (STORED, CONFIRMED, None, Outcome.CONFIRMED, "its private states to arrive here", ""),
        (replace(STORED, height=9), None, None, State.CONFIRMED, "its block to become final", "block 9"),
        (replace(STORED, parked_reason="ask me"), None, None, State.PARKED, "its user to resume it (ask me)", ""),
        (replace(STORED, ending_reason="cancelled"), None, None, State.ENDING, "its contract to be loaded", "ending: "),
        (replace(STORED, issued=a_prepared(a_transition(1), 1)), None, None, State.ISSUED, "somebody to commit it", ""),
        (STORED, None, None, State.PENDING, "its contract to be loaded", ""),
    ],
)
def test_what_is_stored_is_explained(
    stored: StoredTransaction,
    receipt: Receipt | None,
    place: NumberedReceipt | None,
    state: State | Outcome,
    waits_for: str,
    detail: str,
) -> None:
    found = explain_stored(stored, receipt, place, NODE)
    assert (found.state, found.waits_for, found.meaning) == (state.value, waits_for, MEANINGS[state])
    assert found.detail.startswith(detail)
    assert found.contract == FIRST
    assert found.history[0].text == "accepted"
    assert found.since_ms == (2_000 if place is not None else None)


def test_an_ended_deployment_names_the_contract_that_it_made() -> None:
    made = ContractAddress("0x" + "ab" * 20)
    stored = replace(STORED, intent=an_intent(1, NO_CONTRACT))
    found = explain_stored(stored, replace(CONFIRMED, contract=made), PLACE, NODE)
    assert found.contract == made
    assert explain_stored(stored, None, None, NODE).contract is None
