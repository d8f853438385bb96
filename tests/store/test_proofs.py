"""Proofs are there after a restart, as long as their intents are open; the same on both databases."""

from __future__ import annotations

from dataclasses import replace

from rota.machine.effects import IntentAccepted, IntentFinalised
from rota.model.types import Leaf, Outcome, Receipt
from rota.ports import StoredProof
from tests.store.kit import FIRST, Make, an_intent, in_loop, intent_id, opened_on


def proof_of(number: int) -> StoredProof:
    return StoredProof(intent_id(number), Leaf(bytes([number]) * 32), 1_000 + number, bytes([number]) * 256)


@in_loop
async def test_latest_proof_of_each_open_intent_is_kept(make: Make) -> None:
    async with opened_on(await make()) as opened:
        book = opened.store.proofs
        for number in (1, 2, 3):
            await opened.write(FIRST, IntentAccepted(an_intent(number)))
            await book.keep(proof_of(number))
        later = replace(proof_of(1), leaf=Leaf(bytes(32)), valid_until_s=2_000, proof=b"another")
        await book.keep(later)
        assert await book.restore() == (proof_of(2), proof_of(3), later)
        await book.forget(intent_id(2))
        await book.forget(intent_id(9))
        assert await book.restore() == (proof_of(3), later)


@in_loop
async def test_proofs_of_what_has_ended_or_never_was_are_swept_away_at_the_next_start(make: Make) -> None:
    async with opened_on(await make()) as opened:
        book = opened.store.proofs
        for number in (1, 2):
            await opened.write(FIRST, IntentAccepted(an_intent(number)))
        for number in (1, 2, 3):
            await book.keep(proof_of(number))
        await opened.write(FIRST, IntentFinalised(Receipt(intent_id(1), Outcome.REVERTED, "no")))
        assert await book.restore() == (proof_of(2),)
