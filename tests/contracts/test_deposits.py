"""Coins made of an ERC-20 and turned into it, on both ledgers of proofs, with a verifier for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from rota.bench.gas import address_of
from rota.calldata import NO_CONDITION, encode_commit, encode_payload
from rota.domains.zeto.coins import VALUE_MAX
from rota.domains.zeto.reserve import MOVE_GAS, deposit_call, withdrawal_call
from rota.keys.secp256k1 import PrivateKey
from rota.model.types import Call, ContractAddress, StateId, Transition
from rota.sim.state_ledger import SkipReason
from tests.contracts.evm import BOB, Reverted, call_data, decode_error, keccak
from tests.contracts.kit import ISSUER, VALID_UNTIL_S, Committed, ProvedLedger, ids, key_of, proved_as
from tests.contracts.test_nullified import ISSUER as NULLIFIED_ISSUER
from tests.contracts.test_nullified import NullifiedLedger, coin, nullifier

HONEST, SILENT, DECLINING, KEEPING_ONE, TAKING_ONE_MORE, _CALLING, BURNING, MUTTERING = range(8)
OWNER: Final = PrivateKey(keccak(b"who deposits"))
ACCOUNT: Final = address_of(OWNER)
STRANGER: Final = PrivateKey(keccak(b"somebody else"))
HAS: Final = 1_000


class Bank:
    """A ledger of either kind with its ERC-20, of which one account has some and lets the ledger take it."""

    def __init__(self, ledger: ProvedLedger | NullifiedLedger) -> None:
        self.ledger: Final = ledger
        self.chain: Final = ledger.chain
        self.name: Final = "Proved" if isinstance(ledger, ProvedLedger) else "Nullified"
        self.issuer: Final = key_of(ISSUER) if isinstance(ledger, ProvedLedger) else NULLIFIED_ISSUER
        self.token: Final = self.chain.deploy("TestToken")

    def opened(self) -> Bank:
        """With its ERC-20 set, and filled."""
        self.set_token()
        self.ask("mint", ACCOUNT, HAS)
        self.ask("approve", self.ledger.address, HAS, sender=ACCOUNT)
        return self

    def set_token(self, token: ContractAddress | None = None, issuer: PrivateKey | None = None) -> None:
        call = call_data(self.name, "setERC20", token or self.token)
        signature = (issuer or self.issuer).sign_compact(keccak(self.ledger.separator + call))
        self.chain.send(self.ledger.address, call + signature, BOB)

    def ask(self, function: str, *arguments: object, sender: ContractAddress = BOB) -> object:
        found: object = self.chain.call("TestToken", self.token, function, *arguments, sender=sender)
        return found

    def deposit(
        self, number: int, amount: int, outputs: int = 1, signer: PrivateKey = OWNER, call: Call | None = None
    ) -> Transition:
        calls = (call or deposit_call(self.token, ACCOUNT, self.ledger.address, amount),)
        if isinstance(self.ledger, ProvedLedger):
            return self.ledger.write(number, outputs=outputs, calls=calls, depositor=signer)
        coins = tuple(coin(f"{number} {n}") for n in range(outputs))
        return self.ledger.spend(number, (), coins, root=0, calls=calls, depositor=signer)

    def mint(self, number: int) -> Transition:
        """A coin of nothing."""
        if isinstance(self.ledger, ProvedLedger):
            return self.ledger.write(number, outputs=1)
        return self.ledger.mint(number, coin(f"minted {number}"))

    def withdraw(
        self, number: int, made: Transition, amount: int, outputs: int = 0, call: Call | None = None
    ) -> Transition:
        """Spends all that was made."""
        calls = (call or withdrawal_call(self.token, ACCOUNT, amount),)
        return self.spend(number, made, outputs, calls)

    def spend(self, number: int, made: Transition, outputs: int = 1, calls: tuple[Call, ...] = ()) -> Transition:
        if isinstance(self.ledger, ProvedLedger):
            return self.ledger.write(number, inputs=ids(made), outputs=outputs, calls=calls)
        spent: tuple[StateId, ...] = tuple(nullifier(f"of {state.leaf.hex()} {state.output}") for state in ids(made))
        coins = tuple(coin(f"{number} {n}") for n in range(outputs))
        return self.ledger.spend(number, spent, coins, calls=calls)

    def commit(self, *entries: Transition) -> Committed:
        return self.ledger.commit(*entries)

    def refusal(self, *entries: Transition) -> str:
        with pytest.raises(Reverted) as reverted:
            self.commit(*entries)
        return str(reverted.value)

    def failed_calls(self, *entries: Transition) -> int:
        """Commit, and how many were skipped because of their call."""
        found = self.commit(*entries)
        assert {each.reason for each in found.skipped} <= {SkipReason.CALL_FAILED}
        return len(found.skipped)

    @property
    def holds(self) -> object:
        return self.ask("balanceOf", self.ledger.address)

    @property
    def account_has(self) -> object:
        return self.ask("balanceOf", ACCOUNT)

    def unspent(self, made: Transition) -> int:
        found: int = self.chain.call(self.name, self.ledger.address, "unspentOf", made.leaf)
        return found


@pytest.fixture(params=[ProvedLedger, NullifiedLedger])
def unset(request: pytest.FixtureRequest) -> Bank:
    return Bank(request.param())


@pytest.fixture(params=[ProvedLedger, NullifiedLedger])
def unbacked(request: pytest.FixtureRequest) -> Bank:
    """By its terms its issuer may mint beside an ERC-20."""
    return Bank(request.param(unbacked_mints=True))


@pytest.fixture
def bank(unset: Bank) -> Bank:
    return unset.opened()


def test_coins_are_made_of_tokens_and_turned_into_them(bank: Bank) -> None:
    deposit = bank.deposit(0, 300)
    assert bank.commit(deposit).mask == 1
    assert (bank.holds, bank.account_has, bank.unspent(deposit)) == (300, 700, 1)
    assert bank.commit(bank.withdraw(1, deposit, 120, outputs=1)).mask == 1
    assert (bank.holds, bank.account_has) == (180, 820)


def test_round_has_deposits_payments_and_withdrawals_of_one_another(bank: Bank) -> None:
    """Whatever is moved, the ledger has what came in less what left."""
    first, second = bank.deposit(0, 10, outputs=2), bank.deposit(1, 7)
    paid = bank.spend(2, first, outputs=1)
    if isinstance(bank.ledger, NullifiedLedger):
        # What a round makes is spent by name within it; the tree has it afterwards.
        assert bank.commit(first, second).mask == 0b11
        paid = bank.spend(2, first, outputs=1)
        assert bank.commit(paid, bank.withdraw(3, second, 7)).mask == 0b11
    else:
        assert bank.commit(first, second, paid, bank.withdraw(3, second, 7)).mask == 0b1111
    assert (bank.holds, bank.account_has) == (10, HAS - 10)


def test_deposit_and_withdrawal_of_a_token_that_returns_nothing(bank: Bank) -> None:
    bank.ask("behave", SILENT)
    deposit = bank.deposit(0, 5)
    assert bank.commit(deposit).mask == 1
    assert bank.commit(bank.withdraw(1, deposit, 5)).mask == 1
    assert (bank.holds, bank.account_has) == (0, HAS)


@pytest.mark.parametrize("ways", [DECLINING, KEEPING_ONE, TAKING_ONE_MORE, BURNING, MUTTERING])
def test_token_that_does_not_do_what_it_says_moves_nothing(bank: Bank, ways: int) -> None:
    """Of a deposit it is credit that would not be there; of a withdrawal the others' tokens."""
    kept = bank.deposit(0, 50)
    bank.commit(kept)
    bank.ask("behave", ways)
    # What keeps one from who gets it is the receiver's matter when tokens leave: the ledger gave what it had to.
    withdrawal = bank.withdraw(2, kept, 20, outputs=1)
    bank_is_right = ways == KEEPING_ONE
    # And what takes one more from the payer is his matter when tokens come in.
    deposit_is_right = ways == TAKING_ONE_MORE
    assert bank.failed_calls(bank.deposit(1, 5)) == (0 if deposit_is_right else 1)
    assert bank.failed_calls(withdrawal) == (0 if bank_is_right else 1)
    held = 50 + (5 if deposit_is_right else 0) - (20 if bank_is_right else 0)
    assert bank.holds == held
    bank.ask("behave", HONEST)
    if not bank_is_right:
        assert bank.commit(withdrawal).mask == 1, "what was skipped has its coins back"
        assert bank.holds == held - 20


def test_token_that_calls_back_meets_a_closed_ledger(bank: Bank) -> None:
    deposit = bank.deposit(0, 40)
    bank.commit(deposit)
    withdrawal, other = bank.withdraw(1, deposit, 40), bank.deposit(2, 1)
    again = encode_commit(encode_payload((other,), VALID_UNTIL_S), bank.ledger.auth(other), NO_CONDITION)
    questions = [again, call_data(bank.name, "unspentOf", deposit.leaf), call_data(bank.name, "isUsed", deposit.intent)]
    for number, question in enumerate(questions):
        bank.ask("callMeanwhile", bank.ledger.address, question)
        assert bank.failed_calls(bank.deposit(10 + number, 1)) == 0
        answer = bank.ask("answer")
        assert isinstance(answer, bytes)
        assert (answer[0], str(decode_error(answer[1:]))) == (0, "Reentered()")
    for question in (call_data(bank.name, "move", bank.token, b""), call_data(bank.name, "runCalls", b"\0")):
        bank.ask("callMeanwhile", bank.ledger.address, question)
        assert bank.failed_calls(bank.deposit(20 + question[0], 1)) == 0
        answer = bank.ask("answer")
        assert isinstance(answer, bytes)
        assert str(decode_error(answer[1:])) == "OnlyLedger()"
    bank.ask("behave", HONEST)
    assert bank.commit(withdrawal).mask == 1


def test_what_was_not_allowed_or_is_not_there_is_skipped_and_the_rest_goes_on(unbacked: Bank) -> None:
    bank = unbacked.opened()
    bank.ask("approve", bank.ledger.address, 30, sender=ACCOUNT)
    good, bad, last = bank.deposit(0, 20), bank.deposit(1, 11), bank.deposit(2, 10)
    found = bank.commit(good, bad, last)
    assert found.mask == 0b101
    assert [(each.reason, each.leaf, each.state.output) for each in found.skipped] == [
        (SkipReason.CALL_FAILED, bad.leaf, 0)
    ]
    assert (bank.holds, bank.unspent(bad)) == (30, 0)
    # A coin that nothing was deposited for is worth nothing here: the ledger has not got it.
    minted = bank.mint(3)
    bank.commit(minted)
    assert bank.failed_calls(bank.withdraw(4, minted, 31)) == 1
    assert bank.commit(bank.withdraw(5, minted, 30)).mask == 1, "its inputs were given back"


def test_coin_of_a_deposit_that_was_skipped_is_not_in_the_tree() -> None:
    bank = Bank(NullifiedLedger()).opened()
    bank.ask("approve", bank.ledger.address, 1, sender=ACCOUNT)
    assert bank.commit(bank.deposit(0, 1), bank.deposit(1, 1)).mask == 0b01
    assert bank.chain.call("Nullified", bank.ledger.address, "size") == (1, 1)
    assert isinstance(bank.ledger, NullifiedLedger)
    assert bank.ledger.is_recent(bank.ledger.tree.root)


def test_coins_whose_withdrawal_was_skipped_keep_their_commitments() -> None:
    """The last coin of its maker clears a word, which is not to be lost when the token refuses."""
    bank = Bank(ProvedLedger()).opened()
    deposit = bank.deposit(0, 9)
    bank.commit(deposit)
    bank.ask("behave", DECLINING)
    assert bank.failed_calls(bank.withdraw(1, deposit, 9)) == 1
    assert bank.unspent(deposit) == 1
    bank.ask("behave", HONEST)
    assert bank.commit(bank.withdraw(2, deposit, 9)).mask == 1


def test_deposit_is_made_once(bank: Bank) -> None:
    deposit = bank.deposit(0, 5)
    bank.commit(deposit)
    again = bank.commit(deposit)
    assert (again.mask, [each.reason for each in again.skipped]) == (0, [SkipReason.INTENT_USED])
    assert bank.holds == 5


def test_nobody_deposits_what_is_another_s(bank: Bank) -> None:
    foreign = bank.deposit(0, 5, signer=STRANGER)
    account = f"'{ACCOUNT}'"
    assert bank.refusal(foreign) == f"NotDeposited(0, {account})"
    good = bank.deposit(1, 5)
    assert bank.refusal(good, proved_as(bank.deposit(2, 5), good)) == f"NotDeposited(1, {account})"
    unsigned = replace(good, signature=good.signature[:64] + good.signature[128:])
    assert bank.refusal(unsigned) == f"NotDeposited(0, {account})"
    short = replace(good, signature=good.signature[: 64 + 63])
    assert bank.refusal(short) == "MalformedAuth(0,)"


def test_signature_that_is_nobody_s_does_not_stand_for_the_address_zero(bank: Bank) -> None:
    """What recovers no key at all gives the address zero; some tokens have an account of that name."""
    nobody = ContractAddress("0x" + "00" * 20)
    bank.ask("mint", nobody, 9)
    bank.ask("approve", bank.ledger.address, 9, sender=nobody)
    deposit = bank.deposit(0, 9, call=deposit_call(bank.token, nobody, bank.ledger.address, 9))
    nonsense = replace(deposit, signature=deposit.signature[:64] + bytes(64) + deposit.signature[128:])
    assert bank.refusal(nonsense) == f"NotDeposited(0, '{nobody}')"


def test_amount_account_and_direction_are_those_that_were_proved(bank: Bank) -> None:
    """The leaf binds the call, and so do the proof and the signature: those of one serve no other."""
    ledger = bank.ledger.address
    rich = address_of(STRANGER)
    bank.ask("mint", rich, HAS)
    bank.ask("approve", ledger, HAS, sender=rich)
    good = bank.deposit(0, 5)
    others = {
        "amount": deposit_call(bank.token, ACCOUNT, ledger, 6),
        "account": deposit_call(bank.token, rich, ledger, 5),
        "gas": deposit_call(bank.token, ACCOUNT, ledger, 5, MOVE_GAS + 1),
    }
    for what, call in others.items():
        signer = STRANGER if what == "account" else OWNER
        other = bank.deposit(0, 0, call=call, signer=signer)
        assert "NotDeposited" in bank.refusal(proved_as(other, good)), what
        # Who signs for the other one has no proof of it.
        signed = replace(other, signature=other.signature[:128] + good.signature[128:])
        assert bank.refusal(signed) == "WrongProof(0,)", what
    bank.commit(good)
    out = bank.withdraw(1, good, 5)
    for call in (withdrawal_call(bank.token, ACCOUNT, 4), withdrawal_call(bank.token, address_of(STRANGER), 5)):
        other = bank.withdraw(1, good, 0, call=call)
        assert bank.refusal(proved_as(other, out)) == "WrongProof(0,)"
    # A withdrawal's proof shown for a transition that moves nothing, and the other way round.
    plain = bank.spend(1, good, outputs=0)
    assert bank.refusal(proved_as(plain, out)) == "WrongProof(0,)"
    assert bank.refusal(proved_as(out, plain)) == "WrongProof(0,)"
    assert bank.commit(out).mask == 1


def test_no_other_call_is_made(bank: Bank) -> None:
    ledger, word = bank.ledger.address, VALUE_MAX.to_bytes(32, "big")
    good = deposit_call(bank.token, ACCOUNT, ledger, 5)
    out = withdrawal_call(bank.token, ACCOUNT, 5)
    odd = [
        replace(good, data=b""),
        replace(good, data=good.data[:-1]),
        replace(good, data=good.data + b"\0"),
        replace(good, data=bytes(4) + good.data[4:]),
        replace(good, data=good.data[:4] + b"\1" + good.data[5:]),
        replace(good, data=good.data[:67] + b"\1" + good.data[68:]),
        deposit_call(bank.token, ACCOUNT, ledger, 0),
        deposit_call(bank.token, ACCOUNT, ledger, VALUE_MAX + 1),
        deposit_call(bank.token, ACCOUNT, BOB, 5),
        replace(out, data=out.data + b"\0"),
        replace(out, data=out.data[:-1]),
        withdrawal_call(bank.token, ACCOUNT, 0),
        withdrawal_call(bank.token, ACCOUNT, VALUE_MAX + 1),
        Call(bank.token, MOVE_GAS, call_data("TestToken", "approve", ACCOUNT, VALUE_MAX)),
        Call(bank.token, MOVE_GAS, call_data("TestToken", "mint", ACCOUNT, VALUE_MAX)),
        Call(bank.token, MOVE_GAS, out.data[:4] + word),
    ]
    for call in odd:
        assert bank.refusal(bank.deposit(0, 0, call=call)) == "Malformed(0, 'calls')", call
    if isinstance(bank.ledger, ProvedLedger):
        both = bank.ledger.write(0, outputs=1, calls=(good, out), depositor=OWNER)
        assert bank.refusal(both) == "Malformed(0, 'calls')"
    assert (bank.holds, bank.account_has) == (0, HAS)


def test_only_the_erc20_that_was_set_is_called(bank: Bank) -> None:
    other = bank.chain.deploy("TestToken")
    for token in (other, BOB):
        call = deposit_call(token, ACCOUNT, bank.ledger.address, 5)
        assert bank.failed_calls(bank.deposit(int(token[-2:], 16), 5, call=call)) == 1


def test_without_an_erc20_nothing_is_moved(unset: Bank) -> None:
    unset.ask("mint", ACCOUNT, HAS)
    unset.ask("approve", unset.ledger.address, HAS, sender=ACCOUNT)
    deposit = unset.deposit(0, 5)
    assert unset.failed_calls(deposit) == 1
    unset.set_token()
    assert unset.commit(deposit).mask == 1


def test_erc20_is_set_once_by_its_issuer(unset: Bank) -> None:
    with pytest.raises(Reverted, match="NotIssuer"):
        unset.set_token(issuer=STRANGER)
    with pytest.raises(Reverted, match="NotIssuer"):
        unset.chain.call(unset.name, unset.ledger.address, "setERC20", unset.token)
    signed_for_another = unset.issuer.sign_compact(
        keccak(unset.ledger.separator + call_data(unset.name, "setERC20", unset.ledger.address))
    )
    with pytest.raises(Reverted, match="NotIssuer"):
        unset.chain.send(unset.ledger.address, call_data(unset.name, "setERC20", unset.token) + signed_for_another)
    for nothing in (BOB, unset.ledger.address):
        with pytest.raises(Reverted, match="NoERC20"):
            unset.set_token(nothing)
    unset.set_token()
    assert unset.chain.call(unset.name, unset.ledger.address, "erc20") == unset.token
    for token in (unset.token, unset.chain.deploy("TestToken")):
        with pytest.raises(Reverted, match="AlreadySet"):
            unset.set_token(token)


def test_too_little_gas_for_a_move_undoes_the_round_and_skips_nothing(bank: Bank) -> None:
    """Whoever commits must not be able to have a deposit skipped by being mean."""
    deposit = bank.deposit(0, 5)
    call = encode_commit(encode_payload((deposit,), VALID_UNTIL_S), bank.ledger.auth(deposit), NO_CONDITION)
    outcomes = set()
    for gas in range(60_000, 460_000, 5_000):
        try:
            answer = bank.chain.send(bank.ledger.address, call, gas=gas)
        except Reverted as reverted:
            outcomes.add(reverted.name)
            assert bank.holds == 0
            continue
        assert int.from_bytes(answer.output[:32], "big") == 1, "never skipped"
        assert bank.holds == 5
        break
    assert "TooLittleGas" in outcomes


# Coins that no token stands behind.


def test_issuer_does_not_mint_beside_an_erc20(bank: Bank) -> None:
    """Else it withdraws what others have deposited."""
    deposit = bank.deposit(0, 50)
    bank.commit(deposit)
    assert bank.refusal(bank.withdraw(2, deposit, 1, outputs=1), bank.mint(1)) == "MintBesideERC20(1,)"
    assert bank.commit(bank.withdraw(3, deposit, 50)).mask == 1


def test_issuer_does_not_set_an_erc20_behind_coins_that_it_minted(unset: Bank) -> None:
    """Coins that were minted before would be withdrawn against what is deposited later."""
    assert unset.commit(unset.mint(0)).mask == 1
    with pytest.raises(Reverted, match="MintedBeforeERC20"):
        unset.set_token()
    assert unset.commit(unset.mint(1)).mask == 1, "it stays a token that is minted"


def test_terms_may_let_the_issuer_mint_beside_an_erc20(unbacked: Bank) -> None:
    assert unbacked.chain.call(unbacked.name, unbacked.ledger.address, "unbackedMints") is True
    assert unbacked.commit(unbacked.mint(0)).mask == 1
    unbacked.opened()
    assert unbacked.commit(unbacked.mint(1), unbacked.deposit(2, 5)).mask == 0b11


def test_mint_that_is_skipped_does_not_keep_an_erc20_from_being_set(unset: Bank) -> None:
    used = unset.ledger.write(0) if isinstance(unset.ledger, ProvedLedger) else unset.ledger.empty(0)
    unset.commit(used)
    assert [each.reason for each in unset.commit(unset.mint(0)).skipped] == [SkipReason.INTENT_USED]
    unset.set_token()


def test_deposit_and_withdrawal_need_the_signature_of_their_intents_key(bank: Bank) -> None:
    deposit = bank.deposit(0, 5)
    assert bank.refusal(replace(deposit, signature=bytes(64) + deposit.signature[64:])) == "NotIntentKey(0,)"
    bank.commit(deposit)
    out = bank.withdraw(1, deposit, 5)
    assert bank.refusal(replace(out, signature=deposit.signature[:64] + out.signature[64:])) == "NotIntentKey(0,)"
    assert bank.commit(out).mask == 1
