"""States that users are shown; where nobody endorses transitions, those whose contents the ledger was told of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from rota.api.errors import Rejected
from rota.core.consistency import consistent_for
from rota.core.effects import StatesReceived
from rota.digests import leaf_of_transition
from rota.domains.available import readable
from rota.domains.contents import schema_of
from rota.domains.zeto.records import ZetoCoin
from rota.runtime.accepting import Acceptances
from rota.runtime.facades.states import States
from rota.runtime.mail import GroupMail
from rota.types import ContractAddress, Digest, NodeName, StateId, Transition
from tests.domains.kit import ALICE, BOB
from tests.domains.zeto.test_domain import HOSTED, minted, pay
from tests.ledger.chains import in_loop
from tests.runtime.test_encrypted_peers import NODE2, contracts_of
from tests.store.kit import new_sqlite, opened_on


def forged(honest: Transition, told: Transition) -> Transition:
    """Contents of one transition, beside the commitments of another."""
    lying = replace(honest, info=told.info)
    leaf = leaf_of_transition(HOSTED.separator, lying)
    outputs = tuple(replace(state, id=StateId(leaf, number)) for number, state in enumerate(lying.outputs))
    return replace(lying, leaf=leaf, outputs=outputs)


@in_loop
async def test_coin_that_the_ledger_was_not_told_of_is_found_by_no_query_for_states(tmp_path: Path) -> None:
    honest, large = minted(pay(ALICE, 7)), minted(pay(ALICE, 1_000_000))
    contracts, address = contracts_of(NODE2), HOSTED.contract.address
    async with opened_on(new_sqlite(tmp_path), contracts=(HOSTED.contract,)) as opened:
        for number, made in enumerate((honest, forged(large, honest))):
            seen = consistent_for(HOSTED.separator, NODE2, made.as_seen_by(NODE2))
            assert seen is not None, "it agrees with itself"
            received = StatesReceived(Digest(bytes([number]) * 32), (seen,), 0, NodeName("node1"))
            assert await opened.write(address, received)
        mail = GroupMail(NODE2, contracts, opened.store, print, lambda: (1, 1), lambda: 0, Acceptances())
        shown = States(NODE2, contracts, opened.store, mail)
        found = await shown.query("zeto", address, schema_of(ZetoCoin).id, {}, "all")
        assert [each.data["amount"] for each in found if isinstance(each.data, dict)] == ["7"]


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
        assert await opened.write(address, StatesReceived(Digest(bytes(32)), (seen,), 0, NodeName("node1")))
        mail = GroupMail(NODE2, contracts, opened.store, print, lambda: (1, 1), lambda: 0, Acceptances())
        shown = States(NODE2, contracts, opened.store, mail)

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
