"""Which of the transitions that another contract is to carry out are under way first."""

from __future__ import annotations

from rota.machine.effects import TransitionPrepared
from rota.model.types import ContractAddress, NodeName, Party
from tests.store.kit import FIRST, SECOND, Make, a_prepared, a_transition, in_loop, opened_on


def to_carry(sender: str, number: int) -> TransitionPrepared:
    prepared = a_prepared(a_transition(number, 7), number)
    return TransitionPrepared(NodeName(sender), prepared, Party(f"alice@{sender}"))


@in_loop
async def test_carried_transitions_that_never_end_keep_no_other_contract_or_sender_waiting(make: Make) -> None:
    async with opened_on(await make()) as opened:
        book = opened.store.carried

        async def add(contract: ContractAddress, sender: str, number: int) -> None:
            await book.add(contract, to_carry(sender, number), f"key {contract} {number}")

        for number in range(12):
            await add(FIRST, f"liar{number % 3}", number)
        await add(FIRST, "node2", 12)
        await add(SECOND, "liar1", 13)
        first = await book.open(4, 6)
        of_whom = [(each.contract, each.record.sender) for each in first]
        assert (FIRST, NodeName("node2")) in of_whom
        assert (SECOND, NodeName("liar1")) in of_whom
        everything = await book.open(4, 100)
        assert len(everything) == 14
        # Of one sender the earliest come first.
        of_liar = [each.key[1] for each in everything if each.record.sender == "liar0"]
        assert of_liar == [to_carry("liar0", number).prepared.transition.leaf for number in (0, 3, 6, 9)]
