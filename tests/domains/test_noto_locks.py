"""Notary tokens whose locks have a record on the ledger: permitted transitions, their readers, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rota.calldata import PERMITTED_UNTIL_S, decode_payload, encode_cancel_lock, encode_spend_lock, permitted_payload
from rota.domains.base import Assembled, Assembly, NewState, Outcome, Rejected
from rota.domains.contents import Role
from rota.domains.locking import Locking, Permit, Permitted, permitted_by
from rota.domains.noto import Noto
from rota.domains.noto.domain import LEDGER
from rota.domains.noto.records import Coin, Configuration, RecordedLock
from rota.domains.records import packed, unpacked
from rota.host import UserCall, deploy, init
from rota.model.digests import is_id_of, leaf_of_transition, permitted_intent
from rota.model.types import (
    LOCK_EXPIRY_MAX,
    NO_DELEGATE,
    ContractAddress,
    LockKind,
    NodeName,
    Party,
    StateId,
    Transition,
)
from tests.domains.kit import ADDRESS
from tests.domains.town import Reverts, Town

NOTARY, ALICE, BOB, CAROL = (Party(name) for name in ("notary@node1", "alice@node2", "bob@node3", "carol@node4"))
NODE1, NODE2, NODE3, NODE4 = (NodeName(f"node{number}") for number in (1, 2, 3, 4))
DELEGATE = ContractAddress("0x" + "d1" * 20)
TOKEN = {"name": "Gold", "symbol": "AU", "notary": "notary@node1", "notaryMode": "basic"}
END_S = 1_900_000_000


@pytest.fixture
def rich() -> Town:
    """Alice has 100."""
    built = Town(Noto(), TOKEN, NOTARY)
    built.do(NOTARY, "mint", {"to": ALICE, "amount": 100})
    return built


def shares(**amounts: int) -> list[dict[str, object]]:
    names = {"alice": ALICE, "bob": BOB, "carol": CAROL}
    return [{"to": names[name], "amount": amount} for name, amount in amounts.items()]


def prepared(built: Town, **more: object) -> Transition:
    """40 of Alice's coins, 25 of which are for Bob and 10 for Carol."""
    return built.do(ALICE, "createTransferLock", transfer_lock(bob=25, carol=10) | more)


def transfer_lock(**amounts: int) -> dict[str, object]:
    return {"from": ALICE, "recipients": shares(**amounts), "unlockData": "0x01", "data": "0x"}


def lock_of(setting: Transition) -> str:
    assert setting.lock is not None
    return "0x" + setting.lock.lock.hex()


def permits(built: Town, setting: Transition) -> tuple[Transition, Transition]:
    spends, cancels = permitted_by(built.hosted.separator, setting)
    assert spends is not None
    assert cancels is not None
    return spends, cancels


def end_in_public(built: Town, setting: Transition, permitted: Transition) -> None:
    """The delegate commits what the record permits: the ledger makes its outputs, and the record's state is spent."""
    del built.states[StateId(setting.leaf, 0)]
    built.commit(permitted)


def balance(built: Town, account: Party) -> int:
    told: Any = built.ask(NOTARY, "balanceOf", {"account": account})
    return int(told["totalBalance"])


# What a record permits.


def test_record_permits_what_the_lock_was_prepared_for_or_that_the_owner_has_it_back(rich: Town) -> None:
    setting = prepared(rich, expiresAt=END_S)
    change = setting.lock
    assert change is not None
    assert (change.kind, change.presumed, change.delegate) == (LockKind.SET, NO_DELEGATE, NO_DELEGATE)
    assert change.expires_at_s == END_S
    spends, cancels = permits(rich, setting)
    assert (change.spends, change.cancels) == (spends.leaf, cancels.leaf)
    for each in (spends, cancels):
        assert each.leaf == leaf_of_transition(rich.hosted.separator, each)
        assert each == Transition(each.intent, each.leaf, outputs=each.outputs), "it makes outputs and nothing else"
    assert [r for r in rich.records(spends, NODE1) if isinstance(r, Coin)] == [Coin(BOB, 25), Coin(CAROL, 10)]
    assert [r for r in rich.records(cancels, NODE1) if isinstance(r, Coin)] == [Coin(ALICE, 35)]
    assert balance(rich, ALICE) == 65
    end_in_public(rich, setting, spends)
    assert (balance(rich, ALICE), balance(rich, BOB), balance(rich, CAROL)) == (65, 25, 10)


def test_cancelled_lock_returns_everything(rich: Town) -> None:
    setting = prepared(rich)
    end_in_public(rich, setting, permits(rich, setting)[1])
    assert (balance(rich, ALICE), balance(rich, BOB)) == (100, 0)


def test_lock_is_prepared_later_and_its_rest_goes_back(rich: Town) -> None:
    locked = rich.do(ALICE, "lock", {"amount": 40, "data": "0x"})
    assert locked.lock is None, "a lock that is its owner's alone has no record"
    told: Any = rich.receipt(locked, NODE2)
    lock = told["lockInfo"]["lockId"]
    arguments = {"lockId": lock, "from": ALICE, "recipients": shares(bob=25), "unlockData": "0x", "data": "0x"}
    setting = rich.do(ALICE, "prepareUnlock", arguments)
    assert lock_of(setting) == lock
    assert setting.lock is not None
    assert setting.lock.expires_at_s == LOCK_EXPIRY_MAX, "without expiresAt it never expires"
    end_in_public(rich, setting, permits(rich, setting)[0])
    assert (balance(rich, ALICE), balance(rich, BOB)) == (75, 25)


def test_burn_and_mint_locks_permit_a_burn_and_a_mint(rich: Town) -> None:
    burn = rich.do(ALICE, "createBurnLock", {"from": ALICE, "amount": 30, "unlockData": "0x", "data": "0x"})
    spends, cancels = permits(rich, burn)
    assert not [r for r in rich.records(spends, NODE1) if isinstance(r, Coin)]
    assert [r for r in rich.records(cancels, NODE1) if isinstance(r, Coin)] == [Coin(ALICE, 30)]
    mint = rich.do(NOTARY, "createMintLock", {"recipients": shares(bob=7), "unlockData": "0x", "data": "0x"})
    spends, cancels = permits(rich, mint)
    assert [r for r in rich.records(spends, NODE1) if isinstance(r, Coin)] == [Coin(BOB, 7)]
    assert not [r for r in rich.records(cancels, NODE1) if isinstance(r, Coin)]
    assert spends.leaf != cancels.leaf


def test_id_of_the_permitted_transitions_is_on_nobodys_page(rich: Town) -> None:
    """So no endorser signs or voids anything under it while the record stands."""
    setting = prepared(rich)
    spends, cancels = permits(rich, setting)
    assert spends.intent == cancels.intent == permitted_intent(rich.hosted.separator, setting.intent)
    for party in (ALICE, NOTARY):
        for nonce in (bytes(16), setting.intent, spends.intent):
            assert not is_id_of(spends.intent, party, ADDRESS, nonce)


# Readers.


def test_each_reader_has_its_own_contents_when_the_record_is_set(rich: Town) -> None:
    setting = prepared(rich)
    seen = {
        node: [
            [each.content is not None for each in made.outputs] if made is not None else None
            for made in permitted_by(rich.hosted.separator, setting.as_seen_by(node))
        ]
        for node in (NODE1, NODE2, NODE3, NODE4)
    }
    # Bob's coin, Carol's, and what tells the owner of the end.
    assert seen[NODE1] == seen[NODE2] == [[True, True, True], [True]]
    assert seen[NODE3] == [[True, False, False], None]
    assert seen[NODE4] == [[False, True, False], None]
    assert "carol" not in str(setting.as_seen_by(NODE3))
    assert permitted_by(rich.hosted.separator, setting.as_seen_by(NodeName("stranger"))) == (None, None)


def test_receipt_has_the_calls_before_there_is_a_delegate(rich: Town) -> None:
    setting = prepared(rich, expiresAt=END_S)
    spends, cancels = permits(rich, setting)
    told: Any = rich.receipt(setting, NODE2)
    lock_id = setting.lock.lock  # type: ignore[union-attr]
    spend_args, cancel_args = permitted_payload(spends), permitted_payload(cancels)
    assert told["lockInfo"] == {
        "lockId": lock_of(setting),
        "spendTxId": "0x" + spends.intent.hex() + "00" * 16,
        "spendCommitment": "0x" + spends.leaf.hex(),
        "cancelCommitment": "0x" + cancels.leaf.hex(),
        "expiresAt": str(END_S),
        "unlockFunction": "spendLock",
        "unlockParams": {"lockId": lock_of(setting), "spendArgs": "0x" + spend_args.hex(), "data": "0x"},
        "unlockCall": "0x" + encode_spend_lock(lock_id, spend_args).hex(),
        "cancelFunction": "cancelLock",
        "cancelParams": {"lockId": lock_of(setting), "cancelArgs": "0x" + cancel_args.hex(), "data": "0x"},
        "cancelCall": "0x" + encode_cancel_lock(lock_id, cancel_args).hex(),
    }
    payload = decode_payload(spend_args, rich.hosted.separator)
    assert (payload.valid_until_s, payload.leaves) == (PERMITTED_UNTIL_S, (spends.leaf,))  # type: ignore[union-attr]
    assert [each["data"]["amount"] for each in told["states"]["lockedOutputs"]] == ["35"]
    recipients: Any = rich.receipt(setting, NODE3)
    assert recipients["lockInfo"]["unlockCall"] == told["lockInfo"]["unlockCall"]
    assert "cancelCall" not in recipients["lockInfo"], "a recipient does not know what the owner gets back"


def test_receipt_of_what_a_delegate_committed_names_lock_and_owner(rich: Town) -> None:
    setting = prepared(rich)
    spends, cancels = permits(rich, setting)
    told: Any = rich.receipt(spends, NODE3)
    assert told["lockInfo"] == {"lockId": lock_of(setting)}
    assert told["transfers"] == [{"from": ALICE, "to": BOB, "amount": "25"}]
    assert told["data"] == "0x01"
    returned: Any = rich.receipt(cancels, NODE2)
    assert "transfers" not in returned
    assert [each["data"]["owner"] for each in returned["states"]["outputs"]] == [ALICE]


# The owner and the notary.


def test_owner_ends_a_record_that_has_no_delegate(rich: Town) -> None:
    first, second = prepared(rich), prepared(rich)
    spent = rich.do(ALICE, "spendLock", {"lockId": lock_of(first), "data": "0x"})
    assert (spent.lock.kind, spent.lock.presumed) == (LockKind.SPENT, NO_DELEGATE)  # type: ignore[union-attr]
    cancelled = rich.do(ALICE, "cancelLock", {"lockId": lock_of(second), "data": "0x"})
    assert (cancelled.lock.kind, cancelled.lock.presumed) == (LockKind.CANCELLED, NO_DELEGATE)  # type: ignore[union-attr]
    assert (balance(rich, ALICE), balance(rich, BOB), balance(rich, CAROL)) == (65, 25, 10)
    for function in ("spendLock", "cancelLock"):
        with pytest.raises(Reverts, match="PD200028: Lock ID not found"):
            rich.assemble(ALICE, function, {"lockId": lock_of(first), "data": "0x"})


def test_record_is_delegated_once_by_the_notary_and_then_in_public(rich: Town) -> None:
    setting = prepared(rich)
    lock = lock_of(setting)
    given = rich.do(ALICE, "delegateLock", {"lockId": lock, "delegate": DELEGATE, "data": "0x"})
    assert given.lock is not None
    assert (given.lock.kind, given.lock.presumed, given.lock.delegate) == (LockKind.DELEGATE, NO_DELEGATE, DELEGATE)
    told: Any = rich.receipt(given, NODE2)
    assert told["lockInfo"] == {"lockId": lock, "delegate": DELEGATE}
    for function, arguments in (
        ("delegateLock", {"delegate": DELEGATE}),
        ("spendLock", {}),
        ("cancelLock", {}),
        ("unlock", {"from": ALICE, "recipients": shares(bob=1)}),
        ("prepareUnlock", {"from": ALICE, "recipients": shares(bob=1), "unlockData": "0x"}),
    ):
        with pytest.raises(Reverts, match=f"given to {DELEGATE}, and its delegate ends it .* public functions"):
            rich.assemble(ALICE, function, {"lockId": lock, "data": "0x", **arguments})


def test_refused_function_of_a_lock_names_another_one(rich: Town) -> None:
    locked: Any = rich.receipt(rich.do(ALICE, "lock", {"amount": 10, "data": "0x"}), NODE2)
    bare, recorded = locked["lockInfo"]["lockId"], lock_of(prepared(rich))
    cases = (
        ("delegateLock", {"lockId": bare, "delegate": DELEGATE}, "prepare it by prepareUnlock first"),
        ("spendLock", {"lockId": bare}, "prepare it by prepareUnlock first"),
        ("delegateLock", {"lockId": recorded, "delegate": NO_DELEGATE}, "not zero"),
        ("unlock", {"lockId": recorded, "from": ALICE, "recipients": shares(bob=1)}, "End this one by spendLock"),
        ("spendLock", {"lockId": recorded, "condition": "0x" + "01" * 32}, "must be left out: locks of this token"),
    )
    for function, arguments, words in cases:
        with pytest.raises(Reverts, match=words):
            rich.assemble(ALICE, function, {"data": "0x", **arguments})
    for function in ("spendLock", "cancelLock"):
        with pytest.raises(Reverts, match="PD200028"):
            rich.assemble(BOB, function, {"lockId": recorded, "data": "0x"})
    rich.do(ALICE, "cancelLock", {"lockId": bare, "data": "0x"})
    assert balance(rich, ALICE) == 65


def test_token_of_an_earlier_release_keeps_private_locks() -> None:
    """Its configuration has no fifth value. The ledger follows from the configuration."""
    before = unpacked(Configuration, ["Gold", "AU", NOTARY, [True, True, True]])
    assert (before.public_locks, Noto().ledger_of(before)) == (False, None)
    assert packed(before) == ["Gold", "AU", NOTARY, [True, True, True]]
    made = deploy(Noto(), TOKEN, NOTARY).configuration
    assert packed(made)[4:] == [True]
    assert Noto().ledger_of(made) == LEDGER


def test_private_locks_have_no_end() -> None:
    built = Town(Noto(), {**TOKEN, "options": {"publicLocks": False}}, NOTARY)
    asked = UserCall(ALICE, "createTransferLock", transfer_lock(bob=1) | {"expiresAt": END_S})
    with pytest.raises(Rejected, match=r"expiresAt: must be left out: locks of this token are private states"):
        init(built.hosted, asked)


# Liars.


class _Liar(Noto):
    """A sender's node that makes something else of what it was asked for."""

    def __init__(self, lie: Callable[[Assembled], Assembled]) -> None:
        super().__init__()
        self.lie = lie

    def assemble(self, work: Assembly[Configuration]) -> Outcome:
        outcome = super().assemble(work)
        return self.lie(outcome) if isinstance(outcome, Assembled) else outcome


def refusal(
    built: Town, lie: Callable[[Assembled], Assembled], function: str = "createTransferLock", arguments: object = None
) -> str:
    """Why the notary's node does not sign what a lying sender makes."""
    honest, built.hosted = built.hosted, replace(built.hosted, domain=_Liar(lie))
    made = built.assemble(ALICE, function, arguments or transfer_lock(bob=25, carol=10))
    built.hosted = honest
    return built.refusal(made, ALICE)


def locked_as(**changes: Any) -> Callable[[Assembled], Assembled]:  # noqa: ANN401  # any field
    def lie(outcome: Assembled) -> Assembled:
        assert outcome.lock is not None
        return replace(outcome, lock=replace(outcome.lock, **changes))

    return lie


def paid_twice(permit: Permit) -> Permit:
    return Permit((NewState(Coin(ALICE, 25), (NOTARY, ALICE)), *permit.makes))


@pytest.mark.parametrize(
    "changes",
    [
        {"delegate": DELEGATE},
        {"presumed": DELEGATE},
        {"expires_at_s": END_S},
        {"lock": bytes(32)},
        {"spends": Permit((NewState(Coin(ALICE, 35), (NOTARY, ALICE)),))},
        {"cancels": Permit((NewState(Coin(ALICE, 36), (NOTARY, ALICE)),))},
        {"cancels": Permit(())},
    ],
)
def test_notary_refuses_a_record_that_the_request_does_not_ask_for(rich: Town, changes: dict[str, Any]) -> None:
    assert "what becomes of a lock on the ledger" in refusal(rich, locked_as(**changes))


def test_notary_refuses_more_or_less_than_the_lock_was_prepared_for(rich: Town) -> None:
    for name in ("spends", "cancels"):

        def more(outcome: Assembled, name: str = name) -> Assembled:
            assert outcome.lock is not None
            return locked_as(**{name: paid_twice(getattr(outcome.lock, name))})(outcome)

        assert "what becomes of a lock on the ledger" in refusal(rich, more)


def test_notary_refuses_readers_that_are_not_those_of_the_output(rich: Town) -> None:
    """A recipient that never learns of its coin, and another party that does."""

    def hidden(outcome: Assembled) -> Assembled:
        assert outcome.lock is not None
        makes = tuple(
            replace(each, readers=(NOTARY, ALICE)) if isinstance(each.record, Coin) else each
            for each in outcome.lock.spends.makes
        )
        return locked_as(spends=Permit(makes))(outcome)

    assert "what becomes of a lock on the ledger" in refusal(rich, hidden)


def test_notary_refuses_a_lock_without_a_record_and_a_record_without_a_lock(rich: Town) -> None:
    assert "what becomes of a lock" in refusal(rich, lambda outcome: replace(outcome, lock=None))
    stolen = Locking(kind=LockKind.SET, lock=bytes(32), spends=Permit((NewState(Coin(ALICE, 9), (NOTARY, ALICE)),)))
    paid = {"to": BOB, "amount": 1, "data": "0x"}
    assert "what becomes of a lock" in refusal(rich, lambda outcome: replace(outcome, lock=stolen), "transfer", paid)
    ended = Locking(kind=LockKind.SPENT, lock=bytes(32))
    assert "what becomes of a lock" in refusal(rich, lambda outcome: replace(outcome, lock=ended), "transfer", paid)


def test_notary_refuses_to_end_or_to_keep_another_lock(rich: Town) -> None:
    first, second = prepared(rich), prepared(rich)
    asked = {"lockId": lock_of(first), "data": "0x"}
    other = second.lock.lock  # type: ignore[union-attr]
    for function in ("spendLock", "cancelLock"):
        assert "what becomes of a lock" in refusal(rich, locked_as(lock=other), function, asked)
        assert "what becomes of a lock" in refusal(rich, lambda o: replace(o, lock=None), function, asked)
        kind = LockKind.CANCELLED if function == "spendLock" else LockKind.SPENT
        assert "what becomes of a lock" in refusal(rich, locked_as(kind=kind), function, asked)


def test_infos_about_permitted_transitions_are_the_hosts_alone(rich: Town) -> None:
    """Hidden contents: an info that is missing, too much, or for others is refused before the domain is asked."""

    def told(outcome: Assembled) -> Assembled:
        extra = NewState(Permitted(False, (), ()), (NOTARY, ALICE), Role.INFO)
        return replace(outcome, info=(*outcome.info, extra))

    assert "must be in an info for its readers" in refusal(rich, told)
    paid = {"to": BOB, "amount": 1, "data": "0x"}
    assert "sets no record of a lock" in refusal(rich, told, "transfer", paid)


def test_leaf_that_no_endorser_sees_is_refused(rich: Town) -> None:
    """The record names a leaf whose outputs the endorsers do not see."""
    made = rich.assemble(ALICE, "createTransferLock", transfer_lock(bob=25))
    assert made.lock is not None
    hidden = replace(made, lock=replace(made.lock, spends=made.lock.cancels))
    for lie in (hidden, replace(made, lock=replace(made.lock, cancels=type(made.leaf)(b"h" * 32)))):
        leaf = leaf_of_transition(rich.hosted.separator, lie)
        outputs = tuple(replace(each, id=StateId(leaf, n)) for n, each in enumerate(lie.outputs))
        shown = replace(lie, leaf=leaf, outputs=outputs)
        assert "the leaves of its lock are not those of the outputs in its infos" in rich.refusal(shown, ALICE)


def test_record_of_another_lock_state_is_not_spent_as_coins(rich: Town) -> None:
    """The state that stands for a record has no value without a change of the record."""
    setting = prepared(rich)
    anchor = StateId(setting.leaf, 0)
    assert isinstance(rich.records(setting, NODE1)[0], RecordedLock)
    paid = {"to": BOB, "amount": 1, "data": "0x"}
    assert "only coins can be spent so" in refusal(rich, lambda o: replace(o, spends=(anchor,)), "transfer", paid)
