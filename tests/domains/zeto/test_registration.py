"""Tokens of registered owners in the domain: refusals before a proof, the statements, and calls that issuers sign."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from rota import host
from rota.domains.base import Behind, Claim, Rejected, Reserve
from rota.domains.zeto.babyjubjub import ZERO, Point, add, decompress, key_of
from rota.domains.zeto.circuits import Statement, trace
from rota.domains.zeto.domain import ANON, ANON_KYC, ANON_NULLIFIER, ANON_NULLIFIER_KYC, Zeto
from rota.domains.zeto.field import ORDER
from rota.domains.zeto.identities import Identities, identity_of
from rota.domains.zeto.membership import Members
from rota.domains.zeto.records import Configuration
from rota.host import Background, UserCall
from rota.host.proving import reveal
from rota.ledger.bindings import encode_call
from rota.ledger.proofs import binding_of
from rota.model.types import ContractAddress, NodeName, Party, SubmitMode, Transition
from rota.sequencer.events import AssemblyFailed, AssemblyFinished
from rota.wire.messages import AssemblyOutcome
from tests.domains.kit import ALICE, BOB, NOTARY, assembly_order, hosted_by, intent, transition_of

DOMAIN = Zeto()
KINDS = (ANON_KYC, ANON_NULLIFIER_KYC)
NODE1 = NodeName("node1")
CAROL = Party("carol@node3")
PARTIES = (NOTARY, ALICE, BOB, CAROL)
SECRETS = {party: party.encode().ljust(48, b"\1") for party in PARTIES}
KEYS = {party: DOMAIN.verifier_of(secret) for party, secret in SECRETS.items()}
POINTS = {party: decompress(bytes.fromhex(key.removeprefix("0x"))) for party, key in KEYS.items()}
TOKEN = ContractAddress("0x" + "70" * 20)
RICH = Reserve(TOKEN, ContractAddress("0x" + "a1" * 20), 100, 100, 100)
DELEGATE = "0x" + "de" * 20


def roster_of(*parties: Party) -> Identities:
    roster = Identities()
    roster.extend([identity_of(POINTS[party]).to_bytes(32, "big") for party in parties])
    return roster


class Book:
    """One node with its coins, the tree of all, and the roster as the chain has it."""

    def __init__(self, kind: str, *registered: Party) -> None:
        hosted = hosted_by(DOMAIN, {"tokenName": kind})
        self.configuration = Configuration(kind, NOTARY)
        self.hosted = replace(hosted, secret_of=SECRETS.get)
        self.roster = roster_of(*registered)
        self.tree = Members()
        self.held: dict[object, object] = {}
        self.number = 0

    def ask(self, call: UserCall, reserve: Reserve | None = None) -> AssemblyFinished | AssemblyFailed:
        self.number += 1
        background = Background(verifiers=KEYS, reserves={call.sender: reserve} if reserve else {}, roster=self.roster)
        order = assembly_order([intent(self.hosted, self.number, call)])
        (result,) = results = host.assemble(self.hosted, order, self.held, NODE1, background)  # type: ignore[arg-type]
        self.revealed = reveal(self.hosted, order, results, self.held, NODE1, background)  # type: ignore[arg-type]
        return result

    def refusal(self, call: UserCall, reserve: Reserve | None = None) -> str:
        result = self.ask(call, reserve)
        assert isinstance(result, AssemblyFinished)
        assert result.outcome is AssemblyOutcome.REVERTED, result
        return result.reason

    def made(self, call: UserCall, reserve: Reserve | None = None) -> Transition:
        return transition_of(self.ask(call, reserve))

    def commit(self, made: Transition) -> None:
        self.held |= {state.id: state for state in made.outputs}
        self.tree.extend([made.info])

    def statement(self, made: Transition, roster: Identities | None = None) -> Statement:
        found = self.revealed[made.leaf]
        claim = Claim(
            self.configuration,
            found.sender,
            SECRETS[found.sender],
            binding_of(made.leaf, made.valid_until_s),
            found.spends,
            found.makes,
            found.preparation,
            found.calls,
            found.reads,
            self.tree,
            roster or self.roster,
        )
        stated = DOMAIN.statement(claim)
        assert isinstance(stated, Statement)
        return stated


def pay(*payments: tuple[Party, int]) -> dict[str, object]:
    return {"transfers": [{"to": to, "amount": amount, "data": "0x"} for to, amount in payments]}


def mint(*payments: tuple[Party, int]) -> UserCall:
    return UserCall(NOTARY, "mint", {"mints": pay(*payments)["transfers"]})


def rich(kind: str, *registered: Party) -> Book:
    """Alice was registered when she got a coin of 10; only these are now."""
    book = Book(kind, ALICE)
    book.commit(book.made(mint((ALICE, 10))))
    book.roster = roster_of(*registered)
    return book


def named(refusal: str) -> Iterable[Party]:
    return [party for party in PARTIES if f"{party} is not registered with" in refusal]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("call", "registered", "missing"),
    [
        (mint((BOB, 5), (CAROL, 5)), (BOB,), CAROL),
        (UserCall(ALICE, "transfer", pay((BOB, 5))), (ALICE,), BOB),
        (UserCall(ALICE, "transfer", pay((BOB, 5), (CAROL, 5))), (ALICE, BOB), CAROL),
        (UserCall(ALICE, "transfer", pay((BOB, 5))), (BOB,), ALICE),
        (UserCall(ALICE, "lock", {"amount": 5, "delegate": DELEGATE}), (BOB,), ALICE),
        (UserCall(ALICE, "deposit", {"amount": 5}), (BOB,), ALICE),
        (UserCall(ALICE, "withdraw", {"amount": 5}), (BOB,), ALICE),
        (
            UserCall(
                ALICE, "transferLocked", {"lockedInputs": [1], "delegate": "x", **pay((BOB, 5))}, SubmitMode.EXTERNAL
            ),
            (ALICE,),
            BOB,
        ),
    ],
)
def test_party_that_is_not_registered_is_named_with_its_key_and_who_registers_it(
    kind: str, call: UserCall, registered: tuple[Party, ...], missing: Party
) -> None:
    refusal = rich(kind, *registered).refusal(call, RICH)
    assert named(refusal) == [missing]
    assert f"{NOTARY} must register its key {KEYS[missing]} first (register)" in refusal


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_statements_of_registered_owners_are_true(kind: str) -> None:
    book = rich(kind, CAROL, BOB, ALICE)
    calls = [
        (UserCall(ALICE, "transfer", pay((BOB, 4))), None),
        (UserCall(ALICE, "transfer", pay((BOB, 4), (CAROL, 6))), None),
        (UserCall(ALICE, "lock", {"amount": 5, "delegate": DELEGATE}), None),
        (UserCall(BOB, "deposit", {"amount": 5}), RICH),
        (UserCall(ALICE, "withdraw", {"amount": 3}), RICH),
        (UserCall(ALICE, "withdraw", {"amount": 10}), RICH),
    ]
    for call, reserve in calls:
        stated = book.statement(book.made(call, reserve))
        assert trace(stated).broken == {}, call.function
        shown = DOMAIN.shown_with(stated)
        assert shown.roster == book.roster.root
        assert (shown.commitments == b"") is (kind == ANON_KYC)
        assert stated.public_inputs[-2] == book.roster.root_number


@pytest.mark.parametrize("kind", KINDS)
def test_owner_that_is_taken_back_before_the_proof_is_waited_for(kind: str) -> None:
    book = rich(kind, ALICE, BOB)
    made = book.made(UserCall(ALICE, "transfer", pay((BOB, 4))))
    for roster in (roster_of(ALICE), roster_of(BOB)):
        with pytest.raises(Behind, match="an owner is not registered on the chain"):
            book.statement(made, roster)


@pytest.mark.parametrize("kind", KINDS)
def test_transaction_with_more_than_the_one_circuit_takes_is_refused_with_the_number(kind: str) -> None:
    book = rich(kind, ALICE, BOB, CAROL)
    three = UserCall(ALICE, "transfer", pay((BOB, 1), (CAROL, 1), (ALICE, 1)))
    with pytest.raises(Rejected, match="transfers: must be 1 to 2, not 3"):
        intent(book.hosted, 9, three)
    assert "what pays 2 parties has no room for change" in book.refusal(
        UserCall(ALICE, "transfer", pay((BOB, 1), (CAROL, 1)))
    )
    for _ in range(2):
        book.commit(book.made(mint((ALICE, 10))))
    assert "but no 2 coins that are worth 25" in book.refusal(UserCall(ALICE, "transfer", pay((BOB, 25))))


def test_issuer_signs_registrations_of_keys_alone_and_for_these_kinds() -> None:
    def call(key: Point) -> bytes:
        return encode_call("NullifiedKyc", "register", [key.x, key.y], b"data")

    good = call(key_of(7))
    for kind in (ANON, ANON_NULLIFIER, *KINDS):
        assert DOMAIN.is_issuers(Configuration(kind, NOTARY), NOTARY, good) is (kind in KINDS)
        assert not DOMAIN.is_issuers(Configuration(kind, NOTARY), ALICE, good)
    configuration = Configuration(ANON_KYC, NOTARY)
    outside = add(key_of(7), Point(0, ORDER - 1))
    alias = Point(key_of(7).x + ORDER, key_of(7).y)
    for no_key in (ZERO, outside, alias, Point(0, ORDER - 1), Point(1, 1)):
        with pytest.raises(Rejected, match="publicKey: must be x and y of an owner's key"):
            DOMAIN.is_issuers(configuration, NOTARY, call(no_key))
    with pytest.raises(Rejected):
        DOMAIN.is_issuers(configuration, NOTARY, good[:40])
    assert not DOMAIN.is_issuers(configuration, NOTARY, encode_call("NullifiedKyc", "isRegistered", [1, 2]))


def test_other_kinds_have_no_roster() -> None:
    for kind in (ANON, ANON_NULLIFIER, *KINDS):
        assert (DOMAIN.roster_of(Configuration(kind, NOTARY)) is None) is (kind not in KINDS)
