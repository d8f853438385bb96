"""A domain that fails on what strangers wrote: nothing but the answer about that is lost, whatever it raises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import InvalidOperation
from typing import Any, ClassVar

import pytest

from rota.domains.base import Rejected
from rota.domains.contents import Content, seal
from rota.host import ContractDefaults, UserCall, deploy, explain, genesis_of, init, learn, open_genesis, shelved
from rota.host.encryption import decrypted, encrypted_for
from rota.host.proving import is_believed
from rota.model.digests import state_commitment
from rota.model.types import Intent, IntentId, Leaf, NodeName, Party, State, StateId, Transition
from tests.domains.kit import ADDRESS, ALICE, NOTARY, Counter, Counting, Settings, hosted_by

NODE = NodeName("node1")
FAILURES = (
    RecursionError("maximum recursion depth exceeded"),
    OverflowError("int too large"),
    MemoryError(),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    InvalidOperation(),
    KeyError("owner"),
    TypeError("unhashable type"),
    AssertionError("an amount is below 2^100"),
)
NUMBERS = range(len(FAILURES))


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*_: object) -> object:
        raise error

    return fail


@dataclass(frozen=True, slots=True)
class Fussy(Settings):
    """A record with a rule that fails."""

    def __post_init__(self) -> None:
        raise InvalidOperation("no number")


class Fragile(Counting):
    """Fails on every state of another party, and on the bytes of every revert."""

    error: ClassVar[Exception] = FAILURES[0]

    def __getattribute__(self, name: str) -> object:
        asked = ("learn", "nullifier", "stands_for", "commitments", "is_owned", "encrypt", "decrypt", "explain")
        return failing(Fragile.error) if name in asked else super().__getattribute__(name)


def made() -> tuple[State, Transition]:
    content = seal(Content(Counter(1), (), (Party("bob@node1"),), bytes(32)))
    leaf = Leaf(b"\1" * 32)
    state = State(StateId(leaf, 0), state_commitment(content), (NODE,), content)
    return state, Transition(IntentId(bytes(16)), leaf, outputs=(state,), info=(b"\2" * 32,))


@pytest.mark.parametrize("number", NUMBERS)
def test_a_state_on_which_the_domain_fails_is_held_and_never_found(number: int) -> None:
    Fragile.error = FAILURES[number]
    hosted = hosted_by(Fragile(), {"keeper": NOTARY})
    state, transition = made()
    learn(hosted, [state], NODE)
    shelf = shelved(hosted, [state], NODE)
    assert list(shelf) == [state.id]
    assert shelf.read(state.id) is None
    shelf.remove(state.id)
    assert not is_believed(hosted, state, {transition.leaf: transition})


@pytest.mark.parametrize("number", NUMBERS)
def test_bytes_on_which_the_domain_fails_are_refused(number: int) -> None:
    Fragile.error = FAILURES[number]
    hosted = hosted_by(Fragile(), {"keeper": NOTARY})
    state, _ = made()
    with pytest.raises(Rejected, match="the domain failed"):
        encrypted_for(hosted, state, NODE, bytes(48))
    encrypted = State(state.id, state.commitment, (NODE,), b"\1\1xrest")
    with pytest.raises(Rejected, match="the domain failed"):
        decrypted(hosted, encrypted, lambda _: b"secret")


@pytest.mark.parametrize("number", NUMBERS)
def test_what_a_contract_reverted_with_is_not_explained_where_the_domain_fails(number: int) -> None:
    Fragile.error = FAILURES[number]
    hosted = hosted_by(Fragile(), {"keeper": NOTARY})
    payload = init(hosted, UserCall(ALICE, "raise", {"by": 1})).payload
    assert explain(hosted, Intent(IntentId(bytes(16)), ADDRESS, ALICE, payload), b"\xff" * 40) is None


@pytest.mark.parametrize("question", ["ledger_of", "tree_of", "roster_of", "circuits", "carrier"])
def test_configuration_on_which_the_domain_fails_is_refused_when_a_contract_is_opened(question: str) -> None:
    domain = Counting()
    genesis = genesis_of(domain, deploy(domain, {"keeper": NOTARY}, NOTARY), ContractDefaults(1337), bytes(32))
    broken = type("Broken", (Counting,), {question: failing(OverflowError("int too large"))})()
    with pytest.raises(Rejected, match="the domain failed: OverflowError"):
        open_genesis({"counting": broken}, genesis, ADDRESS, bytes(32))


def test_rule_of_a_record_that_fails_in_any_way_is_a_refusal() -> None:
    class Strict(Counting):
        configuration = Fussy

    domain = Counting()
    genesis = genesis_of(domain, deploy(domain, {"keeper": NOTARY}, NOTARY), ContractDefaults(1337), bytes(32))
    with pytest.raises(Rejected, match="no number"):
        open_genesis({"counting": Strict()}, genesis, ADDRESS, bytes(32))
