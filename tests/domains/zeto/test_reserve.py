"""Deposits and withdrawals in the domain: what they call, what is proved of them, and what is said beforehand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota import host
from rota.domains.base import Claim, Rejected, Reserve
from rota.domains.zeto.circuits import Statement, trace
from rota.domains.zeto.coins import VALUE_MAX, net_of
from rota.domains.zeto.records import Configuration, Constructor
from rota.domains.zeto.reserve import deposit_call, sets_token, withdrawal_call
from rota.host import Background, UserCall
from rota.host.proving import reveal
from rota.ledger.proofs import binding_of
from rota.ledger.proved_ledgers import code_of
from rota.model.digests import keccak
from rota.model.types import ContractAddress, NodeName, Party, State, StateId
from rota.sequencer.events import AssemblyFinished
from tests.domains.kit import ALICE, BOB, NOTARY, assembly_order, intent, states_after, transition_of
from tests.domains.zeto.test_domain import CONFIGURATION, DOMAIN, HOSTED, KEYS, SECRETS, minted, pay

TOKEN = ContractAddress("0x" + "70" * 20)
ACCOUNT = ContractAddress("0x" + "a1" * 20)
LEDGER = HOSTED.contract.address
RICH = Reserve(TOKEN, ACCOUNT, 1_000, 500, 300)
SET = keccak(b"setERC20(address)")[:4] + bytes(12) + bytes.fromhex("70" * 20)


def asked(function: str, amount: int, sender: Party = ALICE) -> UserCall:
    return UserCall(sender, function, {"amount": amount})


def assembled(
    call: UserCall, reserve: Reserve | None = RICH, held: dict[StateId, State] | None = None
) -> tuple[AssemblyFinished, Claim[Configuration] | None]:
    """What becomes of a request, and what is to be proved of it."""
    order = assembly_order([intent(HOSTED, 7, call)])
    reserves = {call.sender: reserve} if reserve is not None else {}
    background = Background(verifiers=KEYS, reserves=reserves)
    node = NodeName("node2")
    (result,) = host.assemble(HOSTED, order, held or {}, node, background)
    assert isinstance(result, AssemblyFinished), result
    found = reveal(HOSTED, order, [result], held or {}, node, background)
    if result.transition is None:
        return result, None
    made = result.transition
    revealed = found[made.leaf]
    binding = binding_of(made.leaf, made.valid_until_s)
    claim = Claim(CONFIGURATION, revealed.sender, SECRETS[revealed.sender], binding, revealed.spends, revealed.makes)
    return result, replace(claim, calls=revealed.calls)


def proved(claim: Claim[Configuration] | None) -> Statement:
    assert claim is not None
    stated = DOMAIN.statement(claim)
    assert isinstance(stated, Statement)
    assert not trace(stated).broken
    return stated


def test_deposit_makes_a_coin_of_the_sender_and_takes_as_many_tokens() -> None:
    result, claim = assembled(asked("deposit", 60))
    made = transition_of(result)
    assert made.calls == (deposit_call(TOKEN, ACCOUNT, LEDGER, 60),)
    assert (made.inputs, len(made.outputs)) == ((), 1)
    stated = proved(claim)
    assert (stated.net, [coin.value for coin in stated.outputs]) == (60, [60])
    assert claim is not None
    assert DOMAIN.is_signed_too(claim)


def test_withdrawal_spends_coins_gives_change_and_as_many_tokens() -> None:
    held = states_after([minted(pay(ALICE, 50), pay(ALICE, 20))])
    result, claim = assembled(asked("withdraw", 60), held=held)
    made = transition_of(result)
    assert made.calls == (withdrawal_call(TOKEN, ACCOUNT, 60),)
    stated = proved(claim)
    assert (stated.net, [coin.value for coin in stated.outputs]) == (net_of(0, 60), [10])
    assert claim is not None
    assert not DOMAIN.is_signed_too(claim)


def test_withdrawal_of_a_whole_coin_makes_none() -> None:
    held = states_after([minted(pay(ALICE, 50))])
    result, claim = assembled(asked("withdraw", 50), held=held)
    assert transition_of(result).outputs == ()
    assert proved(claim).net == net_of(0, 50)


def test_call_that_is_proved_is_bound_by_the_leaf() -> None:
    leaves = {transition_of(assembled(asked("deposit", amount))[0]).leaf for amount in (1, 2)}
    others = [replace(RICH, token=ContractAddress("0x" + "71" * 20)), replace(RICH, account=LEDGER)]
    leaves |= {transition_of(assembled(asked("deposit", 1), other)[0]).leaf for other in others}
    assert len(leaves) == 4


@pytest.mark.parametrize(
    ("function", "reserve", "reason"),
    [
        ("deposit", None, f"{LEDGER} has no ERC-20: its issuer must set one first (setERC20)"),
        ("withdraw", None, f"{LEDGER} has no ERC-20: its issuer must set one first (setERC20)"),
        ("deposit", replace(RICH, balance=9), f"{ALICE} has 9 of the 10 at {ACCOUNT}"),
        ("deposit", replace(RICH, allowed=3), f"{ALICE} has let the contract take 3 of the 10"),
        ("withdraw", replace(RICH, held=4), "the contract holds 4 of the 10: not all of its coins were deposited"),
        ("withdraw", RICH, f"{ALICE} has 0, and 10 are needed"),
    ],
)
def test_what_is_lacking_is_said_before_anything_is_proved(function: str, reserve: Reserve | None, reason: str) -> None:
    result, _ = assembled(asked(function, 10), reserve)
    assert result.transition is None
    assert result.reason.endswith(reason)


def test_token_that_does_not_say_what_there_is_is_left_to_the_chain() -> None:
    silent = Reserve(TOKEN, ACCOUNT)
    assert transition_of(assembled(asked("deposit", 10), silent)[0]).calls
    held = states_after([minted(pay(ALICE, 10))])
    assert transition_of(assembled(asked("withdraw", 10), silent, held)[0]).calls


@pytest.mark.parametrize("amount", [0, VALUE_MAX + 1])
def test_amount_is_in_range(amount: int) -> None:
    for function in ("deposit", "withdraw"):
        with pytest.raises(Rejected, match="amount: must be from 1 to"):
            intent(HOSTED, 1, asked(function, amount))


def test_only_who_moves_tokens_is_asked_about() -> None:
    intents = [
        intent(HOSTED, 1, asked("deposit", 1)),
        intent(HOSTED, 2, asked("withdraw", 1)),
        intent(HOSTED, 3, UserCall(BOB, "transfer", {"transfers": [pay(ALICE, 1)]})),
    ]
    assert host.movers_in(HOSTED, intents) == (ALICE,)
    assert host.movers_in(HOSTED, [replace(intents[0], payload=b"{}")]) == ()


def test_what_the_issuer_signs_for_is_its_own_call_of_set_erc20() -> None:
    assert DOMAIN.is_issuers(CONFIGURATION, NOTARY, SET)
    assert not DOMAIN.is_issuers(CONFIGURATION, ALICE, SET)
    for other in (SET[:-1], SET + b"\0", b"\0" + SET[1:], b""):
        assert not sets_token(other)


def test_token_that_refuses_is_told_in_words() -> None:
    def error(name: bytes, there: int, needed: int) -> bytes:
        words = (bytes(32), there.to_bytes(32, "big"), needed.to_bytes(32, "big"))
        return keccak(name + b"(address,uint256,uint256)")[:4] + b"".join(words)

    told = CONFIGURATION
    assert DOMAIN.explain(told, error(b"ERC20InsufficientAllowance", 3, 10)) == "the contract may take 3 of the 10"
    assert DOMAIN.explain(told, error(b"ERC20InsufficientBalance", 2, 5)) == "there are 2 of the 5"
    assert DOMAIN.explain(told, error(b"ERC20InsufficientBalance", 2, 5)[:-1]) is None
    assert DOMAIN.explain(told, error(b"Another", 2, 5)) is None


def test_issuer_does_not_mint_beside_an_erc20_unless_the_terms_of_the_token_say_so() -> None:
    """Before anything is signed: the chain would refuse the whole round."""
    call = UserCall(NOTARY, "mint", {"mints": [pay(ALICE, 5)]})
    result, _ = assembled(call)
    assert (result.transition, result.reason) == (None, f"coins of this token are made of the ERC-20 {TOKEN} alone")
    assert transition_of(assembled(call, reserve=None)[0]).outputs
    terms = replace(HOSTED, configuration=replace(CONFIGURATION, unbacked_mints=True))
    background = Background(verifiers=KEYS, reserves={NOTARY: RICH})
    (made,) = host.assemble(terms, assembly_order([intent(terms, 7, call)]), {}, NodeName("node1"), background)
    assert transition_of(made).outputs


def test_terms_are_part_of_the_code_that_a_genesis_is_held_to() -> None:
    arguments = Constructor("Zeto_Anon", unbacked_mints=True)
    configuration = DOMAIN.deploy(arguments, NOTARY).configuration
    assert DOMAIN.ledger_of(configuration).terms == (True,)
    assert DOMAIN.ledger_of(replace(configuration, unbacked_mints=False)).terms == (False,)
    assert DOMAIN.ledger_of(configuration) in DOMAIN.ledgers
    codes = {code_of(ledger, LEDGER).hash for ledger in DOMAIN.ledgers}
    assert len(codes) == len(DOMAIN.ledgers) == 8
