"""States that users are shown; where nobody endorses transitions, those whose contents the ledger was told of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rota.core.consistency import consistent_for
from rota.core.effects import StatesReceived
from rota.digests import leaf_of_transition
from rota.domains.contents import schema_of
from rota.domains.zeto.records import ZetoCoin
from rota.runtime.accepting import Acceptances
from rota.runtime.facades.states import States
from rota.runtime.mail import GroupMail
from rota.types import Digest, NodeName, StateId, Transition
from tests.domains.kit import ALICE
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
