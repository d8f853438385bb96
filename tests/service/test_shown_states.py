"""States that users are shown; where nobody endorses transitions, those whose contents the ledger was told of."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from rota import host
from rota.chain.effects import BlocksIndexed
from rota.domains.available import readable
from rota.domains.contents import schema_of
from rota.domains.zeto.records import ZetoCoin
from rota.engine.accepting import Acceptances
from rota.engine.contracts import KnownContracts
from rota.engine.held_states import HeldStates
from rota.exchange.effects import StatesReceived
from rota.model.blocks import ChainBlock, LedgerOutcome, LedgerStatus
from rota.model.consistency import consistent_for
from rota.model.digests import leaf_of_transition
from rota.model.types import BlockHash, ContractAddress, Digest, IntentId, NodeName, Party, StateId, Transition, node_of
from rota.node.node import OWN
from rota.ports import Store
from rota.rpc.errors import Rejected
from rota.service.groups.mail import GroupMail
from rota.service.keys.addresses import PartyAddresses
from rota.service.receipts.following import Following
from rota.service.states.states import States
from tests.domains.kit import ALICE, BOB, NOTARY, known_by
from tests.domains.zeto import test_unlinked as unlinked
from tests.domains.zeto.test_domain import HOSTED, minted, pay
from tests.engine.test_encrypted_peers import NODE2, contracts_of
from tests.ledger.chains import in_loop
from tests.store.kit import new_sqlite, opened_on


async def _stranger(_party: Party) -> str:
    return ""


NO_ADDRESSES = PartyAddresses(_stranger, lambda _: None)


def forged(honest: Transition, told: Transition) -> Transition:
    """Contents of one transition, beside the commitments of another."""
    return with_its_leaf(replace(honest, info=told.info))


def with_its_leaf(made: Transition) -> Transition:
    leaf = leaf_of_transition(HOSTED.separator, made)
    outputs = tuple(replace(state, id=StateId(leaf, number)) for number, state in enumerate(made.outputs))
    return replace(made, leaf=leaf, outputs=outputs)


@in_loop
async def test_coin_that_the_ledger_was_not_told_of_is_found_by_no_query_for_states(tmp_path: Path) -> None:
    honest, large = minted(pay(ALICE, 7)), minted(pay(ALICE, 1_000_000))
    contracts, address = contracts_of(NODE2), HOSTED.contract.address
    async with opened_on(new_sqlite(tmp_path), contracts=(HOSTED.contract,)) as opened:
        for number, made in enumerate((honest, forged(large, honest))):
            seen = consistent_for(HOSTED.separator, NODE2, made.as_seen_by(NODE2))
            assert seen is not None, "it agrees with itself"
            received = StatesReceived(Digest(bytes([number]) * 32), (seen,), 0, NodeName("node1"))
            await opened.write(address, received)
        mail = GroupMail(NODE2, contracts, opened.store, print, lambda: (1, 1), lambda: 0, Acceptances())
        shown = States(NODE2, contracts, opened.store, mail, NO_ADDRESSES)
        found = await shown.query("zeto", address, schema_of(ZetoCoin).id, {}, "all")
        assert [each.data["amount"] for each in found if isinstance(each.data, dict)] == ["7"]


def unlinked_contracts() -> KnownContracts:
    """A token with nullifiers."""
    secrets = {party: secret for party, secret in unlinked.SECRETS.items() if node_of(party) == NODE2}
    contracts = KnownContracts(NODE2, 1337, host.load_domains(), b"k" * 32, secret_of=secrets.get)
    contracts.add(known_by("zeto", {"tokenName": "Zeto_AnonNullifier"}, NOTARY, HOSTED.contract.address))
    return contracts


FIRST = unlinked.minted(pay(ALICE, 7))
AGAIN = with_its_leaf(replace(FIRST, intent=IntentId(b"again".ljust(16))))
# Contents of which the ledger was not told take nothing from a coin.
FALSE = forged(replace(FIRST, intent=IntentId(b"false".ljust(16))), unlinked.minted(pay(ALICE, 8)))


@asynccontextmanager
async def paid_twice(tmp_path: Path) -> AsyncIterator[tuple[KnownContracts, Store]]:
    """The store of a payee's node after a payer sent it a false coin, paid it, and paid it again with the same coin."""
    contracts, address = unlinked_contracts(), HOSTED.contract.address
    async with opened_on(
        new_sqlite(tmp_path), contracts=(HOSTED.contract,), nullifier_of=contracts.nullifier_of
    ) as opened:
        for height, made in enumerate((FALSE, FIRST, AGAIN), 1):
            seen = consistent_for(HOSTED.separator, NODE2, made.as_seen_by(NODE2))
            assert seen is not None
            await opened.write(address, StatesReceived(Digest(bytes([height]) * 32), (seen,), 0, NodeName("node1")))
            outcome = LedgerOutcome(made.intent, made.leaf, Digest(made.leaf), LedgerStatus.COMMITTED)
            before, own = (BlockHash(bytes([number]) * 32) for number in (height - 1, height))
            block = ChainBlock(height, own, before, height, ((address, outcome),))
            await opened.write(OWN, BlocksIndexed(height - 1, (block,)))
        yield contracts, opened.store


@in_loop
async def test_coin_that_is_paid_again_with_the_same_amount_and_salt_is_shown_once(tmp_path: Path) -> None:
    async with paid_twice(tmp_path) as (contracts, store):
        address = HOSTED.contract.address
        mail = GroupMail(NODE2, contracts, store, print, lambda: (1, 1), lambda: 0, Acceptances())
        states = States(NODE2, contracts, store, mail, NO_ADDRESSES)
        found = await states.query("zeto", address, schema_of(ZetoCoin).id, {}, "all")
        assert [each.data["amount"] for each in found if isinstance(each.data, dict)] == ["7"]
        hosted = contracts.hosted(address)
        assert hosted is not None
        assert len(await HeldStates(NODE2, store).of(hosted)) == 2, "both are held, and spent together"


@in_loop
async def test_full_receipt_shows_no_coin_that_an_earlier_nullifier_spends(tmp_path: Path) -> None:
    async with paid_twice(tmp_path) as (contracts, store):

        async def receipt_of(intent: IntentId) -> SimpleNamespace:
            leaf = next(made.leaf for made in (FALSE, FIRST, AGAIN) if made.intent == intent)
            return SimpleNamespace(id=intent, source=HOSTED.contract.address, leaf=leaf, indexed_at_ms=0)

        async def no_view(_: IntentId) -> None:
            return None

        running: Any = SimpleNamespace(contracts=contracts, name=NODE2, adapters=SimpleNamespace(store=store))
        receipts: Any = SimpleNamespace(of=receipt_of, addresses=NO_ADDRESSES)
        public: Any = SimpleNamespace(view=no_view)
        unused: Any = None
        following = Following(running, unused, public, receipts, unused, unused)
        shown = {}
        for made in (FALSE, FIRST, AGAIN):
            full = await following.full_receipt(made.intent)
            assert full is not None
            assert full.states is not None
            assert isinstance(full.domain_receipt, dict)
            shown[made.intent] = full.domain_receipt["coins"]
            assert len(full.states.confirmed) == (made is FIRST)
            assert len(full.states.missing_confirmed) == (made is not FIRST)
        assert [len(cast(list[object], coins)) for coins in shown.values()] == [0, 1, 0]


@in_loop
async def test_caller_held_to_parties_finds_states_that_name_them_as_readers(tmp_path: Path) -> None:
    made = minted(pay(ALICE, 7), pay(BOB, 8))
    contracts, address, schema = contracts_of(NODE2), HOSTED.contract.address, schema_of(ZetoCoin).id
    readers = [content.readers for state in made.outputs if (content := readable(HOSTED.known, state)) is not None]
    assert [ALICE in each for each in readers] == [True, False]
    assert ALICE.endswith(f"@{NODE2}")
    async with opened_on(new_sqlite(tmp_path), contracts=(HOSTED.contract,)) as opened:
        seen = consistent_for(HOSTED.separator, NODE2, made.as_seen_by(NODE2))
        assert seen is not None
        await opened.write(address, StatesReceived(Digest(bytes(32)), (seen,), 0, NodeName("node1")))
        mail = GroupMail(NODE2, contracts, opened.store, print, lambda: (1, 1), lambda: 0, Acceptances())
        shown = States(NODE2, contracts, opened.store, mail, NO_ADDRESSES)

        async def amounts(parties: tuple[str, ...] | None, qualifier: str = "all") -> list[object]:
            found = [
                state
                for contract in (address, None)
                for state in await shown.query("zeto", contract, schema, {}, qualifier, parties)
            ]
            return [each.data["amount"] for each in found if isinstance(each.data, dict)]

        assert await amounts(None) == ["7", "7"]
        assert await amounts(("alice",)) == ["7", "7"]
        assert await amounts(("ali.*", "bob", "mallory")) == []
        assert await amounts(("mallory",), str(UUID(bytes=made.intent))) == []
        # A contract that this node does not have looks like one in which the caller's parties have nothing.
        unknown = ContractAddress("0x" + "99" * 20)
        assert await shown.query("zeto", unknown, schema, {}, "all", ("alice",)) == ()
        with pytest.raises(Rejected, match="contractAddress: must be a contract of zeto"):
            await shown.query("zeto", unknown, schema, {}, "all")
