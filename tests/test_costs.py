"""The cost ratchet: no count of this tree differs from the recorded one, and each of its measures can rise."""

from __future__ import annotations

from tools import costs


def test_counts_of_transactions_are_as_recorded() -> None:
    told = costs.RATCHET.check(costs.measure())
    assert not told, "\n".join(told)


def test_every_load_has_every_measure() -> None:
    recorded = costs.RATCHET.read()
    for load, intents in costs.INTENTS.items():
        found = {item.measure for item in recorded if item.where == f"{load}-{intents}"}
        assert found == {"bytes", "messages", "signatures", "statements", "steps", "verifications", "writes"}
    assert [item.where for item in recorded if item.measure == "gas"] == ["group-round-64", "notary-round-64"]
