"""Where a domain is asked anything, what becomes of its exceptions is decided: no place is left out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Final

import rota
from rota.domains.base import Domain
from tests.fuzz.test_readers import ELSEWHERE


class Then(Enum):
    """What becomes of an exception, whatever it is."""

    NOTHING_SAID = "the domain has said nothing about the state (`Hosted`)"
    REFUSAL = "it is a refusal: of the bytes, the configuration, the proposal or the transaction"
    ANSWER = (
        "it is the answer to the core: the assembly failed, the transition is not judged, another attempt is worth it"
    )
    LATER = "it is logged, and asked again later"
    ASKED_BEFORE = "the same was asked when the contract was opened, and refused then"
    CALLER = "a caller of the API gets an internal error"
    START = "the node does not start"


ASKED: Final = {
    "engine.commitment_trees:CommitmentTrees.of tree_of": Then.ASKED_BEFORE,
    "engine.contracts:KnownContracts._ledger_code carrier": Then.ASKED_BEFORE,
    "engine.contracts:KnownContracts._ledger_code ledger_of": Then.ASKED_BEFORE,
    "engine.contracts:KnownContracts.add ledger_of": Then.ASKED_BEFORE,
    "engine.contracts:KnownContracts.may_have_tree tree_of": Then.ASKED_BEFORE,
    "engine.contracts:KnownContracts.plan ledger_of": Then.CALLER,
    "engine.proving:Proving._made is_signed_too": Then.ANSWER,
    "engine.proving:Proving._made shown_with": Then.ANSWER,
    "engine.proving:Proving._made statement": Then.ANSWER,
    "engine.proving:Proving.countersigned is_issuers": Then.CALLER,
    "engine.proving:Proving.prepare_for circuits": Then.ASKED_BEFORE,
    "engine.proving:Proving.verifier_of verifier_of": Then.CALLER,
    "engine.rosters:Rosters.of roster_of": Then.ASKED_BEFORE,
    "host.__init__:_ask_what_follows_from carrier": Then.REFUSAL,
    "host.__init__:_ask_what_follows_from circuits": Then.REFUSAL,
    "host.__init__:_ask_what_follows_from ledger_of": Then.REFUSAL,
    "host.__init__:_ask_what_follows_from roster_of": Then.REFUSAL,
    "host.__init__:_ask_what_follows_from tree_of": Then.REFUSAL,
    "host.__init__:_assemble_one assemble": Then.ANSWER,
    "host.__init__:_preparation prepare": Then.ANSWER,
    "host.__init__:_require_notary carrier": Then.REFUSAL,
    "host.__init__:_transition commitments": Then.ANSWER,
    "host.__init__:call call": Then.CALLER,
    "host.__init__:deploy deploy": Then.CALLER,
    "host.__init__:explain explain": Then.NOTHING_SAID,
    "host.__init__:init init": Then.CALLER,
    "host.__init__:judge_failure is_worth_retrying": Then.ANSWER,
    "host.__init__:load_domains set_up": Then.START,
    "host.__init__:open_genesis configure": Then.REFUSAL,
    "host.__init__:open_genesis memory": Then.REFUSAL,
    "host.checking:_Bench.flaw_of endorse": Then.ANSWER,
    "host.checking:_Bench.flaw_of may_act": Then.ANSWER,
    "host.contracts:Hosted.at_another_node memory": Then.ASKED_BEFORE,
    "host.contracts:Hosted.carrier carrier": Then.ASKED_BEFORE,
    "host.contracts:Hosted.is_committed_as commitments": Then.NOTHING_SAID,
    "host.contracts:Hosted.is_owned is_owned": Then.NOTHING_SAID,
    "host.contracts:Hosted.learn learn": Then.NOTHING_SAID,
    "host.contracts:Hosted.spent_as nullifier": Then.NOTHING_SAID,
    "host.contracts:Hosted.stands_for stands_for": Then.NOTHING_SAID,
    "host.encryption:decrypted decrypt": Then.REFUSAL,
    "host.encryption:encrypted_for encrypt": Then.REFUSAL,
    "host.planning:attesters_of plan": Then.ANSWER,
    "host.settled:receipt receipt": Then.REFUSAL,
    "ledger.proved_ledgers:code_for carrier": Then.REFUSAL,
    "ledger.proved_ledgers:code_for ledger_of": Then.REFUSAL,
    "service.carrying.carrying:CarryingDesk._submission_of carry": Then.REFUSAL,
    "service.carrying.carrying:CarryingDesk._submission_of parties_to_carry": Then.REFUSAL,
    "service.carrying.ended_locks:EndedLocks._end_in ended_lock": Then.REFUSAL,
    "service.carrying.ended_locks:EndedLocks._submit notify": Then.REFUSAL,
    "service.carrying.ended_locks:EndedLocks._submit parties_to_notify": Then.REFUSAL,
    "service.keys.verifiers:PartyVerifiers._own verifier_of": Then.CALLER,
}
METHODS: Final = {name for name, value in vars(Domain).items() if callable(value) and not name.startswith("_")}


def asked() -> Iterator[str]:
    """Every place in the product where a method of a domain is called."""
    source = Path(rota.__file__).parent
    for file in sorted(source.rglob("*.py")):
        parts = file.relative_to(source).with_suffix("").parts
        if parts[0] not in {*ELSEWHERE, "domains"}:
            module = ".".join(parts)
            yield from (f"{module}:{where}" for where in _asked_in((), ast.parse(file.read_text())))


def _asked_in(path: tuple[str, ...], node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        inner = path
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = (*path, child.name)
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute) and child.func.attr in METHODS:
            of = ast.unparse(child.func.value)
            if of == "found" or of.rpartition(".")[2] in ("domain", "_domain"):
                yield f"{'.'.join(inner)} {child.func.attr}"
        yield from _asked_in(inner, child)


def test_each_question_to_a_domain_has_an_end_for_its_exceptions() -> None:
    assert set(asked()) == set(ASKED)
