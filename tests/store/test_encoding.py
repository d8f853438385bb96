"""The form of stored values: what it rests on must not change without a migration."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace

import msgspec
import pytest

from rota.chain.effects import RoundDispatch
from rota.directory.effects import Proposal
from rota.machine.effects import DispatchRound, TransitionPrepared
from rota.model.blocks import ChainBlock, FactoryDeployment, LedgerOutcome, MinedTransaction
from rota.model.types import (
    Call,
    CallFailure,
    Contract,
    DelegationNumber,
    Fees,
    Intent,
    IntentId,
    KeptStates,
    KnownContract,
    Leaf,
    LockChange,
    LockKind,
    Preparation,
    Receipt,
    State,
    StateId,
    Transition,
)
from rota.sequencer.sent_intent import Permission
from rota.store.encoding import (
    decode_ending,
    decode_intent,
    decode_proposal,
    decode_transition,
    encode,
    encode_ending,
    encode_text,
)
from rota.wire.messages import EndorserSignature, PreparedTransaction
from tests.store.kit import a_proposal, an_intent

# A class may get more fields with defaults, at any place; a named tuple may get none.
STORED = {
    Contract: "address committee endorsers threshold mode rotation range_size virtual_nodes chain_id",
    Intent: "id contract sender payload depends_on parties idempotency_key submit_mode nonce awaits",
    Transition: "intent leaf inputs reads outputs info valid_until_s signature calls preparation unknown lock",
    State: "id commitment distribution content unknown",
    Call: "to gas data",
    Preparation: "committer condition",
    LockChange: "kind lock presumed delegate expires_at_s spends cancels",
    PreparedTransaction: "digest leaves valid_until_s signatures transition unknown",
    TransitionPrepared: "sender prepared party",
    RoundDispatch: "round signer nonce fees transaction hash account",
    DispatchRound: "contract digest leaves transitions senders signatures valid_until_s",
    Receipt: "intent outcome reason leaf contract code",
    LedgerOutcome: "intent leaf digest status reason is_contention inputs transaction "
    "transaction_index log_index failure",
    CallFailure: "number to verdict revert",
    ChainBlock: "height hash parent time_s outcomes mined deployments",
    FactoryDeployment: "intent contract genesis endorsers threshold transaction transaction_index log_index ledger",
    KnownContract: "contract deployment signers genesis deployed_at taken_in_at source unconfirmed has_rounds",
    Proposal: "peer deployment genesis request_id received_at_s endorser signers decision asked_at_s reason contract",
    MinedTransaction: "nonce status reason gas_used account",
    Permission: "number delegate leaf valid_until_s",  # Until schema 13 it was "number delegate transition".
    DelegationNumber: "incarnation counter",
    StateId: "leaf output",
    KeptStates: "intent leaf inputs valid_until_s",
    Fees: "most_wei tip_wei",
    EndorserSignature: "endorser signature",
}


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: kind.__name__)
def test_the_stored_form_is_that_of_the_first_version(kind: type) -> None:
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else getattr(kind, "_fields")  # noqa: B009
    assert " ".join(names) == STORED[kind]


def test_a_value_of_an_older_version_has_the_defaults_of_what_was_added_since() -> None:
    older = msgspec.msgpack.decode(encode(an_intent(1)))
    del older["submit_mode"], older["idempotency_key"]
    assert decode_intent(encode(older)) == an_intent(1)


def test_transition_is_read_with_its_lock_and_without_one_as_older_releases_wrote_it() -> None:
    lock = LockChange(kind=LockKind.SET, lock=b"l" * 32, spends=Leaf(b"s" * 32), cancels=Leaf(b"c" * 32))
    made = Transition(IntentId(b"i" * 16), Leaf(b"t" * 32), lock=lock)
    assert decode_transition(encode(made)) == made
    older = msgspec.msgpack.decode(encode(made))
    del older["lock"]
    assert decode_transition(encode(older)) == replace(made, lock=None)


def test_proposal_of_an_older_version_was_accepted() -> None:
    older = msgspec.msgpack.decode(encode(a_proposal(1)))
    del older["decision"], older["asked_at_s"], older["reason"], older["contract"]
    assert decode_proposal(encode(older)) == a_proposal(1)


def test_what_a_later_version_has_dropped_is_passed_over() -> None:
    newer = msgspec.msgpack.decode(encode(an_intent(1)))
    assert decode_intent(encode(newer | {"dropped": 1})) == an_intent(1)


@pytest.mark.parametrize(
    ("reason", "code"),
    [("gone", "CONTRACT_NOT_ACTIVE"), ("", "X"), ("gone", ""), ("", ""), ("\x92\u0092é", ""), ("half \ud800", "X")],
)
def test_ending_is_read_with_its_code_and_without_one_as_older_releases_wrote_it(reason: str, code: str) -> None:
    written = encode_ending(reason, code)
    assert decode_ending(written) == (reason.replace("\ud800", "?"), code)
    if not code:
        assert written == encode_text(reason)
    assert decode_ending(None) == (None, "")
