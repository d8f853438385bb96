"""Deposits and withdrawals with the real verifiers, on the embedded chain and on Anvil: what is taken, what refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from rota.domains.zeto.reserve import deposit_call, withdrawal_call
from rota.keys.secp256k1 import PrivateKey
from rota.ledger.bindings import encode_call
from rota.ledger.embedded.accounts import DEVELOPMENT_ACCOUNTS
from rota.ledger.hexadecimal import data
from rota.model.digests import keccak
from rota.model.types import Call, ContractAddress, Transition
from tests.contracts.evm import artifact, call_data
from tests.domains.zeto.on_chain import BOB, ISSUER, Input, Made, TokenLedger, UnlinkedLedger, coin, token_ledger, words
from tests.domains.zeto.test_refusals import PAIRS, WRONG, with_proof_of
from tests.ledger.chains import in_loop, running
from tests.ledger.participant import DEPLOYER, send

DEPOSITOR = PrivateKey(DEVELOPMENT_ACCOUNTS[0].secret)
ACCOUNT = ContractAddress(DEPLOYER)
STRANGER = PrivateKey(keccak(b"somebody else"))
SOMEBODY = ContractAddress("0x" + "5b" * 20)
HONEST, KEEPING_ONE, BURNING = 0, 3, 6


@dataclass(frozen=True, slots=True)
class Bank:
    """A ledger with its ERC-20, of which the depositor has 100 and lets it take 50."""

    ledger: TokenLedger
    token: ContractAddress

    async def ask(self, function: str, *arguments: object) -> None:
        await send(self.ledger.chain, {"to": self.token, "data": data(call_data("TestToken", function, *arguments))})

    async def has(self, account: str) -> int:
        wanted = {"to": self.token, "data": data(call_data("TestToken", "balanceOf", account))}
        return int(str(await self.ledger.chain.rpc("eth_call", wanted, "latest")), 16)

    def taking(self, amount: int) -> tuple[Call, ...]:
        return (deposit_call(self.token, ACCOUNT, self.ledger.address, amount),)

    def giving(self, amount: int, to: ContractAddress = ACCOUNT) -> tuple[Call, ...]:
        return (withdrawal_call(self.token, to, amount),)


async def bank_on(ledger: TokenLedger) -> Bank:
    made = await send(ledger.chain, {"data": data(artifact("TestToken").bytecode)})
    assert made.contract is not None
    call = encode_call("Proved", "setERC20", made.contract)
    signed = call + ISSUER.sign_compact(keccak(ledger.separator + call))
    await send(ledger.chain, {"to": ledger.address, "data": data(signed)})
    bank = Bank(ledger, made.contract)
    await bank.ask("mint", DEPLOYER, 100)
    await bank.ask("approve", ledger.address, 50)
    return bank


async def refuses_other_deposits(bank: Bank, good: Made) -> None:
    """Another amount, another value of the coin, another signature, no signature, another transition's proof."""
    ledger = bank.ledger
    coins = good.coins
    other = ledger.pay((), coins, intent=201, calls=bank.taking(40), depositor=STRANGER)
    assert (await ledger.refusal(other.transition)).startswith("NotDeposited(0,")
    stated = good.statement
    assert stated is not None
    for amount, value in ((41, 40), (39, 40), (40, 41)):
        wanted = (replace(coins[0], value=value),)
        made = ledger.written((), words(wanted), intent=201, calls=bank.taking(amount))
        # What is proved is what is true: the proof that can be made is of another net.
        proven = ledger.proven(made, replace(stated, outputs=wanted, net=value), DEPOSITOR)
        assert await ledger.refusal(proven.transition) == WRONG, (amount, value)
    # Of nothing: neither the issuer's signature nor a proof without what comes in.
    assert not await takes(ledger, ledger.signed(good.transition, good.transition.signature[128:]))
    minted = ledger.mint(*coins)
    assert not await takes(ledger, with_proof_of(ledger, good.transition, minted))
    assert await takes(ledger, good.transition)
    plain = ledger.written((), words(coins), intent=201)
    assert await ledger.refusal(with_proof_of(ledger, plain, good)) == "MalformedAuth(0,)"


async def refuses_other_withdrawals(bank: Bank, deposit: Made) -> None:
    """More than was spent, to somebody else, and a proof of one for the other."""
    ledger = bank.ledger
    good = ledger.pay(deposit.inputs, (coin(25),), intent=301, calls=bank.giving(15))
    stated = good.statement
    assert stated is not None
    for calls in (bank.giving(16), bank.giving(14), bank.giving(15, SOMEBODY), ()):
        made = ledger.written(ledger.references(deposit), words(good.coins), intent=301, calls=calls)
        assert await ledger.refusal(with_proof_of(ledger, made, good)) == WRONG, calls
    more = ledger.written(ledger.references(deposit), words(good.coins), intent=301, calls=bank.giving(16))
    assert await ledger.refusal(ledger.proven(more, stated).transition) == WRONG
    assert await ledger.refusal(good.transition) == ""


async def takes(ledger: TokenLedger, transition: Transition) -> bool:
    """What is shown in another place may pass for a root that is none, and then is skipped."""
    return await ledger.refusal(transition) == "" and await ledger.committed(transition) == 1


def under_way(ledger: TokenLedger, made: Made) -> Input | None:
    """What a spend of this has to name where others are shown to be in the tree."""
    return made.inputs[0] if isinstance(ledger, UnlinkedLedger) else None


def withdrawal_of(bank: Bank, deposit: Made) -> Made:
    """Of all that was deposited."""
    return bank.ledger.pay(deposit.inputs, (), calls=bank.giving(40))


@pytest.mark.slow
@pytest.mark.parametrize(("token", "kind"), PAIRS)
@in_loop
async def test_tokens_become_coins_and_coins_tokens_by_what_is_proved_alone(
    token: str, kind: str, tmp_path: Path
) -> None:
    async with running(kind, tmp_path) as chain:
        bank = await bank_on(await token_ledger(chain, token=token, unbacked_mints=True))
        ledger = bank.ledger
        deposit = ledger.pay((), (coin(40),), intent=201, calls=bank.taking(40), depositor=DEPOSITOR)
        await refuses_other_deposits(bank, deposit)
        # Of what is let too little is left for the second: it is skipped, within the gas that was worked out.
        second = ledger.pay((), (coin(11, salt=2),), calls=bank.taking(11), depositor=DEPOSITOR)
        paid = ledger.pay(deposit.inputs, (coin(40, BOB),), pending=under_way(ledger, deposit))
        assert await ledger.committed(deposit.transition, second.transition, paid.transition) == 0b101
        await ledger.commit(deposit, second)
        assert (await bank.has(DEPLOYER), await bank.has(ledger.address)) == (60, 40)
        assert await ledger.committed(deposit.transition) == 0

        await refuses_other_withdrawals(bank, deposit)
        withdrawal = ledger.pay(deposit.inputs, (coin(25),), calls=bank.giving(15))
        await bank.ask("behave", KEEPING_ONE)
        assert await ledger.committed(withdrawal.transition) == 1, "the ledger gave what it had to"
        # A token that uses all that it is given leaves the rest of the round enough of the gas that was worked out.
        await bank.ask("behave", BURNING)
        await ledger.commit(withdrawal, ledger.mint(coin(1, salt=3)), withdrawal_of(bank, deposit))
        assert await bank.has(ledger.address) == 40
        await bank.ask("behave", HONEST)
        await ledger.commit(withdrawal)
        assert (await bank.has(DEPLOYER), await bank.has(ledger.address)) == (75, 25)
