"""Rosters follow the chain: however owners are registered and taken back, page by page, and from nothing."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import pytest

from rota.domains.base import Roots
from rota.domains.zeto.babyjubjub import key_of
from rota.domains.zeto.domain import ANON, ANON_KYC, Zeto
from rota.domains.zeto.identities import Identities
from rota.engine.rosters import ATTEMPTS_MAX, ROSTERS_KEPT_MAX, Rosters
from rota.ledger.client import RpcClient
from rota.ledger.roots import are_taken, read_roster
from rota.model.digests import keccak
from rota.model.types import ContractAddress
from rota.ports import RosterPage, Unavailable
from tests.domains.kit import hosted_by
from tests.domains.zeto.on_chain import RegisteredLedger, token_ledger
from tests.ledger.chains import in_loop, running
from tests.ledger.test_registry import CLIENT
from tests.store.kit import FIRST

PAGE = 4
HOSTED = hosted_by(Zeto(), {"tokenName": ANON_KYC}, address=FIRST)


def word(number: int) -> bytes:
    return (b"\0" + keccak(b"%d" % number))[:32]


@cache
def root_of(words: tuple[bytes, ...]) -> bytes:
    roster = Identities()
    roster.extend(words)
    return roster.root


class RosterChain:
    """What a contract would answer about these words, some at a time."""

    def __init__(self) -> None:
        self.words: list[bytes] = []
        self.asked = 0

    def root(self) -> bytes:
        return root_of(tuple(self.words))

    async def read(self, contract: ContractAddress, first: int) -> RosterPage:
        assert contract == FIRST
        self.asked += 1
        return RosterPage(self.root(), len(self.words), tuple(self.words[first : first + PAGE]))


@in_loop
async def test_roster_is_that_of_the_chain_after_every_registration_and_every_reorganisation() -> None:
    chance, chain, number = random.Random(11), RosterChain(), 0
    rosters = Rosters(chain.read)
    for _ in range(60):
        del chain.words[max(0, len(chain.words) - chance.choice((0, 0, 0, 1, 2, 5))) :]
        for _ in range(chance.randrange(4)):
            number += 1
            chain.words.append(word(number))
        roster = await rosters.of(HOSTED)
        assert isinstance(roster, Identities)
        assert (len(roster), roster.root) == (len(chain.words), chain.root())
    assert len(chain.words) > 20
    anew = await Rosters(chain.read).of(HOSTED)
    assert anew is not None
    assert anew.root == chain.root()


@in_loop
async def test_roster_that_has_not_changed_costs_one_question() -> None:
    chain = RosterChain()
    chain.words = [word(number) for number in range(10)]
    rosters = Rosters(chain.read)
    await rosters.of(HOSTED)
    before = chain.asked
    await rosters.of(HOSTED)
    assert chain.asked == before + 1


@in_loop
async def test_words_without_the_root_that_is_named_are_not_believed() -> None:
    """An Ethereum node that leaves words out, adds some, or never ends."""
    chain = RosterChain()
    chain.words = [word(number) for number in range(3)]
    root, asked = chain.root(), 0

    async def answer(*pages: RosterPage) -> None:
        nonlocal asked

        async def read(_: ContractAddress, first: int) -> RosterPage:
            nonlocal asked
            asked += 1
            return pages[min(first, len(pages) - 1)]

        with pytest.raises(Unavailable, match="do not have the root that they name"):
            await Rosters(read).of(HOSTED)

    await answer(RosterPage(root, 3, tuple(chain.words[:2])), RosterPage(root, 3, ()))
    await answer(RosterPage(root, 3, (*chain.words[:2], word(9))))
    await answer(RosterPage(root, 3, (*chain.words, word(9))))
    await answer(RosterPage(root, 4, ()))
    await answer(RosterPage(root, 0, ()))
    assert asked <= 6 * ATTEMPTS_MAX


@in_loop
async def test_tokens_without_registered_owners_have_no_roster_and_few_rosters_are_kept() -> None:
    chain = RosterChain()
    rosters = Rosters(chain.read)
    assert await rosters.of(hosted_by(Zeto(), {"tokenName": ANON}, address=FIRST)) is None
    assert chain.asked == 0
    assert ROSTERS_KEPT_MAX < 100


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["embedded", "anvil"])
@in_loop
async def test_owners_are_read_from_the_chain_and_follow_its_reorganisations(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain:
        client = RpcClient(chain.url, CLIENT)
        ledger = await token_ledger(chain, token=ANON_KYC)
        assert isinstance(ledger, RegisteredLedger)
        hosted = hosted_by(Zeto(), {"tokenName": ANON_KYC}, address=ledger.address)

        async def read(contract: ContractAddress, first: int) -> RosterPage:
            return await read_roster(client, contract, first)

        rosters = Rosters(read)
        roster = await rosters.of(hosted)
        assert roster is not None
        assert roster.root == ledger.identities.root
        before = ledger.identities.root
        for scalar in (5, 6):
            await ledger.register(key_of(scalar))
        longer = await rosters.of(hosted)
        assert longer is not None
        assert longer.root == ledger.identities.root
        lost = Roots(b"", ledger.identities.root)
        assert await are_taken(client, ledger.address, lost)

        await chain.rpc("anvil_reorg", 2, [])
        shorter = await rosters.of(hosted)
        assert shorter is not None
        assert (len(shorter), shorter.root) == (2, before)
        assert not await are_taken(client, ledger.address, lost)
        assert await are_taken(client, ledger.address, Roots(b"", before))
        with pytest.raises(Unavailable, match="which owners are registered"):
            await read_roster(client, ContractAddress("0x" + "11" * 20), 0)
        await client.close()
