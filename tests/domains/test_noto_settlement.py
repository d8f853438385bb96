"""Token against token on the real contracts: both legs or neither, in one transaction."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from rota.calldata import encode_payload, settlement_condition
from rota.domains.noto import Noto
from rota.domains.noto.operations import lock_id_of
from rota.engine.drafting import draft
from rota.model.digests import Core
from rota.model.types import ContractAddress, Intent, Party, SubmitMode, Transition, node_of
from tests.contracts.evm import Chain, Reverted, call_data
from tests.contracts.kit import VALID_UNTIL_S, EndorsedLedger, core_of_transition
from tests.domains.town import Town

NOTARY, ALICE, BOB = Party("notary@node1"), Party("alice@node2"), Party("bob@node3")


@dataclass(slots=True)
class Leg:
    """A token on its ledger, with a lock of the payer that only the settlement may end."""

    payer: Party
    payee: Party
    amount: int
    ledger: EndorsedLedger
    town: Town
    lock_id: str = ""

    def do(self, sender: Party, function: str, arguments: object) -> Transition:
        """On the town's books and on the real ledger."""
        made = self.town.do(sender, function, arguments)
        assert self.ledger.commit(made).mask == 1
        return made

    def lock(self, settlement: ContractAddress) -> None:
        """Mint, lock for the payee, and give the lock away."""
        self.do(NOTARY, "mint", [self.payer, self.amount])
        recipients = [{"to": self.payee, "amount": self.amount}]
        made = self.do(self.payer, "createTransferLock", [self.payer, recipients])
        self.lock_id = "0x" + lock_id_of(self.town.hosted.separator, made.intent).hex()
        self.do(self.payer, "delegateLock", [self.lock_id, settlement])
        # The id of the intent that will end it is known from now on.
        self.town.number += 1

    def intent(self, condition: bytes) -> Intent:
        """To end the lock on a condition."""
        arguments = [self.lock_id, "0x", "0x" + condition.hex()]
        return self.town.intent(self.payer, "spendLock", arguments, SubmitMode.EXTERNAL)

    def core(self) -> Core:
        """Before the condition is known."""
        home = node_of(self.payer)
        return draft(self.town.hosted, self.intent(bytes(32)), self.town.held(home), home).core

    def prepared(self, condition: bytes) -> Transition:
        """What the notary endorses when it is known."""
        self.town.number -= 1
        arguments = [self.lock_id, "0x", "0x" + condition.hex()]
        made = self.town.assemble(self.payer, "spendLock", arguments, SubmitMode.EXTERNAL)
        assert self.town.refusal(made, self.payer) == ""
        return made

    def written(self, transition: Transition, core: Core) -> tuple[object, ...]:
        """For the settlement."""
        auth = self.ledger.auth(self.ledger.digest((transition,)))
        return (self.ledger.address, (core,), encode_payload((transition,), VALID_UNTIL_S), auth)

    def balance(self, account: Party) -> str:
        """By the notary's word."""
        told = self.town.ask(NOTARY, "balanceOf", [account])
        assert isinstance(told, dict)
        return str(told["totalBalance"])


def leg(chain: Chain, payer: Party, payee: Party, amount: int) -> Leg:
    ledger = EndorsedLedger(1, 1, chain=chain)
    town = Town(Noto(), {"notary": NOTARY, "options": {"publicLocks": False}}, NOTARY, ledger.address, chain.chain_id)
    return Leg(payer, payee, amount, ledger, town)


def test_gold_against_silver_settles_whole_or_not_at_all() -> None:
    chain = Chain()
    settlement = chain.deploy("Settlement")
    legs = gold, silver = leg(chain, ALICE, BOB, 10), leg(chain, BOB, ALICE, 700)
    for each in legs:
        each.lock(settlement)
    cores = [each.core() for each in legs]
    named = [(each.ledger.address, (core,)) for each, core in zip(legs, cores, strict=True)]
    condition = settlement_condition(tuple(named))
    prepared = [each.prepared(condition) for each in legs]
    pairs = list(zip(legs, prepared, strict=True))
    assert [core_of_transition(each.town.hosted.separator, made) for each, made in pairs] == cores
    written = [each.written(made, core) for each, made, core in zip(legs, prepared, cores, strict=True)]
    # Neither leg goes alone, and nobody but the settlement brings one to its ledger.
    for alone in written:
        with pytest.raises(Reverted):
            chain.send(settlement, call_data("Settlement", "settle", [alone]), settlement)
    with pytest.raises(Reverted):
        gold.ledger.commit(prepared[0], condition=condition)
    chain.send(settlement, call_data("Settlement", "settle", written), ContractAddress("0x" + "77" * 20))
    assert all(each.ledger.is_used(made.intent) for each, made in pairs)
    for each, made in pairs:
        each.town.commit(made)
    assert (gold.balance(BOB), silver.balance(ALICE)) == ("10", "700")
