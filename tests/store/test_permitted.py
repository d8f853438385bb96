"""What a lock's record permits: held when the record is set, there when the chain has it, deleted when it cannot be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.calldata import ended_reference
from rota.chain.effects import BlocksIndexed
from rota.domains.available import known_in
from rota.domains.locking import permitted_by
from rota.domains.noto import Noto
from rota.domains.noto.records import RecordedLock
from rota.exchange.effects import StatesReceived
from rota.machine.effects import IntentAccepted
from rota.model.blocks import ChainBlock, LedgerOutcome, LedgerStatus
from rota.model.consistency import Consistent
from rota.model.digests import leaf_of_transition, state_commitment
from rota.model.types import BlockHash, ContractAddress, NodeName, Party, State, StateId, Transition
from rota.store.database import Reading, Statement
from tests.domains.town import Town
from tests.store.kit import FIRST, Make, Opened, an_intent, digest, in_loop, opened_on

NOTARY, ALICE, BOB = Party("notary@node1"), Party("alice@node2"), Party("bob@node3")
BOBS, NOTARYS = NodeName("node3"), NodeName("node1")
BOUND_S = 2_000


class Swap:
    """A record that pays Bob, as Bob's node and the notary's node see it."""

    def __init__(self) -> None:
        self.town = Town(Noto(), {"notary": NOTARY, "name": "Gold"}, NOTARY, FIRST)
        self.town.do(NOTARY, "mint", {"to": ALICE, "amount": 100})
        self.setting = self.version(40)
        spends, cancels = permitted_by(self.town.hosted.separator, self.setting)
        assert spends is not None
        assert cancels is not None
        self.spends, self.cancels = spends, cancels

    def version(self, amount: int) -> Transition:
        shares = [{"to": BOB, "amount": amount}]
        asked = {"from": ALICE, "recipients": shares, "unlockData": "0x", "data": "0x"}
        made = self.town.assemble(ALICE, "createTransferLock", asked)
        return replace(made, valid_until_s=BOUND_S)

    def received(self, node: NodeName, setting: Transition | None = None) -> StatesReceived:
        seen = (setting or self.setting).as_seen_by(node)
        return StatesReceived(digest(1), (Consistent(seen),), peer=NodeName("peer"))

    def ended_by(self, _: ContractAddress, state: State) -> bytes | None:
        """As in `KnownContracts.nullifier_of`."""
        read = known_in(self.town.hosted.known, state)
        found = self.town.hosted.domain.stands_for(read.record) if read is not None else None
        return found.word if found is not None else None


@pytest.fixture
def swap() -> Swap:
    return Swap()


def block(height: int, *committed: Transition, time_s: int | None = None) -> ChainBlock:
    """As the index reads it: a permitted transition has no inputs, and ends its record."""
    outcomes = tuple(
        (FIRST, LedgerOutcome(each.intent, each.leaf, digest(1), LedgerStatus.COMMITTED, inputs=inputs_of(each)))
        for each in committed
    )
    parent = BlockHash(b"%d" % (height - 1))
    return ChainBlock(height, BlockHash(b"%d" % height), parent, time_s or height * 10, outcomes)


def inputs_of(transition: Transition) -> tuple[StateId, ...]:
    return transition.inputs if transition.lock is not None else (ended_reference(transition.intent),)


async def records(opened: Opened, swap: Swap) -> list[str]:
    page = await opened.store.unspent_states(FIRST)
    known = (known_in(swap.town.hosted.known, state) for state in page.states)
    return sorted(type(each.record).__name__ for each in known if each is not None)


@in_loop
async def test_recipient_has_its_coin_when_the_chain_has_the_leaf_and_not_before(make: Make, swap: Swap) -> None:
    async with opened_on(await make(), nullifier_of=swap.ended_by) as opened:
        await opened.write(FIRST, swap.received(BOBS))
        await opened.write(FIRST, BlocksIndexed(0, (block(1, swap.setting), block(2))))
        assert await records(opened, swap) == []
        await opened.write(FIRST, BlocksIndexed(2, (block(3, swap.spends),)))
        assert await records(opened, swap) == ["Coin"]
        await opened.write(FIRST, BlocksIndexed(2, (block(3),)))
        assert await records(opened, swap) == [], "the chain took it back"
        await opened.write(FIRST, BlocksIndexed(3, (block(4, swap.spends), block(5))))
        assert await records(opened, swap) == ["Coin"]
        await opened.store.listening.number([(each, "noto") for each in await opened.store.listening.due(500)])
        found = await opened.store.listening.receipts_of(swap.spends.intent)
        assert [each.leaf for each in found] == [swap.spends.leaf], "its node has a receipt of the end"


@in_loop
async def test_contents_may_come_after_the_end(make: Make, swap: Swap) -> None:
    """The recipient's node was away while the record was set and spent."""
    async with opened_on(await make(), nullifier_of=swap.ended_by) as opened:
        await opened.write(FIRST, BlocksIndexed(0, (block(1, swap.setting), block(2, swap.spends))))
        await opened.write(FIRST, swap.received(BOBS))
        assert await records(opened, swap) == ["Coin"]
        await opened.write(FIRST, swap.received(NOTARYS))
        assert "RecordedLock" not in await records(opened, swap), "the counterpart of the record ended with it"


@in_loop
async def test_records_that_intents_of_this_node_made_are_found_apart(make: Make, swap: Swap) -> None:
    async with opened_on(await make(), nullifier_of=swap.ended_by) as opened:
        await opened.write(FIRST, IntentAccepted(replace(an_intent(1), id=swap.setting.intent)))
        await opened.write(FIRST, swap.received(NOTARYS))
        await opened.write(FIRST, BlocksIndexed(0, (block(1, swap.setting),)))
        found = await opened.store.standing_states(FIRST, 10, is_own=True)
        assert found == await opened.store.standing_states(FIRST, 10)
        assert len(found) == 1


@pytest.mark.parametrize("is_cancelled", [False, True])
@in_loop
async def test_end_of_a_record_spends_its_counterpart(make: Make, swap: Swap, is_cancelled: bool) -> None:
    async with opened_on(await make(), nullifier_of=swap.ended_by) as opened:
        await opened.write(FIRST, swap.received(NOTARYS))
        await opened.write(FIRST, BlocksIndexed(0, (block(1, swap.setting),)))
        assert await records(opened, swap) == ["Coin", "RecordedLock"]
        [state] = await opened.store.standing_states(FIRST, 10)
        assert await opened.store.standing_states(FIRST, 10, is_own=True) == (), "no user of this node made it"
        read = known_in(swap.town.hosted.known, state)
        assert read is not None
        assert isinstance(read.record, RecordedLock)
        await opened.write(FIRST, BlocksIndexed(1, (block(2, swap.cancels if is_cancelled else swap.spends),)))
        assert await records(opened, swap) == ["Coin", "Coin"]
        assert await opened.store.standing_states(FIRST, 10) == ()
        await opened.write(FIRST, BlocksIndexed(1, (block(2),)))
        assert await records(opened, swap) == ["Coin", "RecordedLock"], "the chain took the end back"


@in_loop
async def test_contents_stay_for_as_long_as_the_record_and_no_longer(make: Make, swap: Swap) -> None:
    """A record outlives the signatures of its transition. Contents of a record that was never set are deleted."""
    other = swap.version(41)
    forgotten = [each for each in permitted_by(swap.town.hosted.separator, other) if each is not None]
    async with opened_on(await make(), nullifier_of=swap.ended_by) as opened:
        for setting in (swap.setting, other):
            await opened.write(FIRST, swap.received(NOTARYS, setting))
        assert {each.leaf for each in (await opened.store.restore([])).sent} == {swap.setting.leaf, other.leaf}
        late_s = 9_000
        blocks = (block(1, swap.setting), block(2, time_s=late_s), block(3, time_s=late_s + 1))
        await opened.write(FIRST, BlocksIndexed(0, blocks))
        await opened.store.listening.forget_expired()
        leaves = tuple(each.leaf for each in (swap.spends, swap.cancels, *forgotten))
        found = [each.leaf for each in await opened.store.transitions_of(FIRST, leaves)]
        assert sorted(found) == sorted((swap.spends.leaf, swap.cancels.leaf))
        ends = (block(4, swap.spends, time_s=late_s + 2), block(5, time_s=late_s + 3))
        await opened.write(FIRST, BlocksIndexed(3, ends))
        await opened.store.listening.forget_expired()
        found = [each.leaf for each in await opened.store.transitions_of(FIRST, leaves)]
        assert found == [swap.spends.leaf], "one of the two is on the chain, and the other one never will be"


@in_loop
async def test_content_that_is_no_text_permits_nothing_and_ends_no_run(make: Make, swap: Swap) -> None:
    """Any peer may send a transition with a record of a lock, and write what it likes into its contents."""
    outputs = []
    for number, state in enumerate(swap.setting.outputs):
        assert state.content is not None
        content = state.content.replace(b"alice", b"\xfflice")
        outputs.append(
            State(StateId(swap.setting.leaf, number), state_commitment(content), state.distribution, content)
        )
    bad = replace(swap.setting, outputs=tuple(outputs), info=())
    leaf = leaf_of_transition(swap.town.hosted.separator, bad)
    bad = replace(bad, leaf=leaf, outputs=tuple(replace(each, id=StateId(leaf, each.id.output)) for each in outputs))
    assert any(b"PermittedTransition" in each.content for each in bad.outputs if each.content)
    assert permitted_by(swap.town.hosted.separator, bad) == (None, None)
    async with opened_on(await make(), nullifier_of=swap.ended_by) as opened:
        await opened.write(FIRST, swap.received(NOTARYS, bad))
        await opened.write(FIRST, BlocksIndexed(0, (block(1, bad), block(2))))
        assert await records(opened, swap) == []


@in_loop
async def test_made_up_version_of_a_setting_transition_takes_no_contents_from_the_one_on_the_chain(
    make: Make, swap: Swap
) -> None:
    """Before the record is on the chain, its owner sends the recipient a version that no endorser signed."""
    made_up = replace(swap.setting, inputs=())
    leaf = leaf_of_transition(swap.town.hosted.separator, made_up)
    outputs = tuple(replace(each, id=StateId(leaf, each.id.output)) for each in made_up.outputs)
    made_up = replace(made_up, leaf=leaf, outputs=outputs, info=())
    assert leaf != swap.setting.leaf
    spends, _ = permitted_by(swap.town.hosted.separator, made_up)
    assert spends is not None
    assert spends.leaf == swap.spends.leaf
    async with opened_on(await make(), nullifier_of=swap.ended_by) as opened:
        for setting in (swap.setting, made_up):
            await opened.write(FIRST, swap.received(BOBS, setting))
        late_s = 9_000
        blocks = (block(1, swap.setting), block(2, time_s=late_s), block(3, time_s=late_s + 1))
        await opened.write(FIRST, BlocksIndexed(0, blocks))
        await opened.store.listening.forget_expired()
        assert set(await setters(opened)) == {swap.setting.leaf}
        ends = (block(4, swap.spends, time_s=late_s + 2), block(5, time_s=late_s + 3))
        await opened.write(FIRST, BlocksIndexed(3, ends))
        assert await records(opened, swap) == ["Coin"]
        await opened.store.listening.number([(each, "noto") for each in await opened.store.listening.due(64)])
        await opened.store.listening.forget_expired()
        assert await setters(opened) == [], "nothing is left of what has ended"


async def setters(opened: Opened) -> list[object]:
    """Leaves of transitions that may have set a record, and are remembered for what it permits."""

    def reading() -> Reading[list[object]]:
        rows = yield Statement("SELECT set_leaf FROM setters")
        return [leaf for (leaf,) in rows]

    return await opened.store.read(reading())
