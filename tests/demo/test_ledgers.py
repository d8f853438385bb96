"""A chain that runs already: who pays on it, with how much, and what is said when nobody can."""

from __future__ import annotations

import pytest

from rota.demo.ledgers import UnusableLedger, funds, running_chain
from rota.demo.programme import Programme
from rota.keys import secp256k1
from rota.keys.secp256k1 import PrivateKey
from rota.ledger.embedded import ChainServer, EmbeddedChain, Settings
from rota.ledger.embedded.accounts import DEVELOPMENT_ACCOUNTS
from rota.localnet.chains import CHAIN_ID, RunningChain
from rota.localnet.ports import held_port
from tests.ledger.chains import in_loop

RICH = PrivateKey(DEVELOPMENT_ACCOUNTS[2].secret)
POOR = PrivateKey(b"\x07" * 32)


async def chosen(settings: Settings, payer: PrivateKey | None) -> RunningChain:
    """What is made of a chain with these settings."""
    server = ChainServer(EmbeddedChain(settings, secp256k1))
    await server.start()
    try:
        return await running_chain(server.url, payer, Programme())
    finally:
        await server.stop()


@in_loop
async def test_on_a_development_chain_an_account_pays_that_everybody_knows() -> None:
    chain = await chosen(Settings(chain_id=CHAIN_ID), None)
    assert chain.payer.address == DEVELOPMENT_ACCOUNTS[0].address
    assert chain.funds_wei > 0


@in_loop
async def test_on_another_chain_a_key_is_asked_for() -> None:
    with pytest.raises(UnusableLedger, match=r"^chain 4242 at http://\S+ is no development chain .* --key-file$"):
        await chosen(Settings(chain_id=4242), None)
    assert (await chosen(Settings(chain_id=4242), RICH)).payer is RICH


@in_loop
async def test_an_account_that_cannot_pay_is_told_with_what_it_has_and_what_it_needs() -> None:
    with pytest.raises(
        UnusableLedger, match=rf"^0x{POOR.address.hex()} has 0 ether, and the demonstration needs \S+ at"
    ):
        await chosen(Settings(chain_id=4242), POOR)


@in_loop
async def test_where_gas_is_free_nobody_needs_funds() -> None:
    free = Settings(chain_id=4242, base_fee_wei=0, base_fee_is_fixed=True, priority_fee_wei=0)
    assert (await chosen(free, POOR)).funds_wei == 0


@in_loop
async def test_a_chain_that_does_not_answer_is_told_by_its_place_and_without_its_secrets() -> None:
    with held_port() as port, pytest.raises(UnusableLedger, match=rf"^http://127\.0\.0\.1:{port}: ") as error:
        await running_chain(f"http://127.0.0.1:{port}/secret-key", None, Programme())
    assert "secret-key" not in str(error.value)


def test_funds_grow_with_the_work() -> None:
    small, large = (funds(Programme(seconds=seconds), 10)[0] for seconds in (3, 600))
    assert 0 < small < large
