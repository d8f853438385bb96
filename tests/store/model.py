"""What users are told of the intents on a simulated disk, worked out anew from its records and its chain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rota.machine.effects import IntentAccepted, IntentFinalised
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.digests import domain_separator, void_leaf
from rota.model.types import Contract, IntentId, Outcome, Receipt
from rota.ports import StoredTransaction
from rota.sequencer.effects import EndingDecided, IntentParked, IntentResumed, TransitionIssued
from rota.sim.disk import Disk


def transactions_on(disk: Disk, contracts: tuple[Contract, ...], confirmations: int) -> list[StoredTransaction]:
    """All of them, latest first. Nobody here has looked at a clock, and sequences are counted from 0."""
    found: dict[IntentId, StoredTransaction] = {}
    for _, record in disk.records:
        match record:
            case IntentAccepted(intent):
                found[intent.id] = StoredTransaction(intent, len(found), 0)
            case IntentFinalised(receipt):
                found[receipt.intent] = replace(found[receipt.intent], receipt=receipt)
            case IntentParked(intent_id, reason):
                found[intent_id] = replace(found[intent_id], parked_reason=reason)
            case IntentResumed(intent_id):
                found[intent_id] = replace(found[intent_id], parked_reason=None)
            case EndingDecided(intent_id, reason):
                found[intent_id] = replace(found[intent_id], ending_reason=reason)
            case TransitionIssued(prepared):
                intent_id = prepared.transition.intent
                found[intent_id] = replace(found[intent_id], issued=prepared)
            case _:
                pass
    for undone in (intent_id for intent_id in disk.undone if intent_id in found):
        found[undone] = replace(found[undone], receipt=Receipt(undone, Outcome.REVERTED))
    for address, height, outcome in (
        (contract.address, *commit) for contract in contracts for commit in commits_of(disk, contract)
    ):
        intent_id, leaf = outcome.intent, outcome.leaf
        is_its_own = intent_id in found and found[intent_id].intent.contract == address
        if is_its_own and (intent_id, leaf) in disk.signed:
            found[intent_id] = replace(found[intent_id], height=height, leaf=leaf, transaction=outcome.transaction)
            if height <= disk.height - confirmations:
                confirmed = Receipt(intent_id, Outcome.CONFIRMED, leaf=leaf)
                found[intent_id] = replace(found[intent_id], receipt=confirmed)
    return list(reversed(found.values()))


def commits_of(disk: Disk, contract: Contract) -> Iterator[tuple[int, LedgerOutcome]]:
    """What is on the chain of a contract, and did more than use its intent up."""
    separator = domain_separator(contract.chain_id, contract.address)
    for block in disk.blocks:
        for address, outcome in block.outcomes:
            is_void = outcome.leaf == void_leaf(separator, outcome.intent)
            if address == contract.address and outcome.status is LedgerStatus.COMMITTED and not is_void:
                yield block.height, outcome
