"""Digests of runs: blind to names and wording, and to nothing that a node does."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rota
from rota.machine.effects import SendMessage
from rota.model.types import ContractAddress, HeartbeatNumber, IntentId, NodeName, RequestId
from rota.sequencer.effects import IntentParked
from rota.sim.breaking import broken
from rota.sim.canaries import CANARIES
from rota.sim.codes import effect_values, message_bytes, record_values
from rota.sim.fingerprint import Fingerprint
from rota.sim.invariants.outcomes import CAUSE_BY_REASON, DEPENDS_ON, UNKNOWN_PARTY, VOIDED
from rota.sim.plan import Settings
from rota.sim.swarm import Swarm
from rota.wire.messages import Answer, DelegationAccepted, Envelope, IntentAnswer

SETTINGS = Settings(minutes=0.05, nodes=3, contracts=1, intents=5, faults=())
# What a refactoring may do: other names for an effect, a record, a message, an event, a field, and members of
# enumerations, one of which is a state.
RENAMED = {
    "AssembleIntents": "AskDomain",
    "IntentFinalised": "IntentEnded",
    "DelegationCommand": "DelegationOrder",
    "MessageReceived": "PeerMessage",
    "prepared_valid_until_s": "latest_end_s",
    "COMMITTED": "INCLUDED",
    "FLUSH": "DRAINING",
    "REVERTED": "FAILED_FOR_GOOD",
}
DIGESTS = """
from rota.sim.fingerprint import Fingerprint
from rota.sim.plan import Settings
from rota.sim.swarm import Swarm

for seed, liars in ((3, 0), (4, 0), (5, 1)):
    fingerprint = Fingerprint()
    Swarm(seed, Settings(minutes=0.25, liars=liars), fingerprint).play()
    print(fingerprint.hexdigest())
"""
WORDS = re.compile(r"[a-z] [a-z]")
# Invariant O1 tells causes by these reasons: a core that words them otherwise fails it, and its run ends there.
JUDGED_BY_WORDING = (*CAUSE_BY_REASON, DEPENDS_ON, UNKNOWN_PARTY, VOIDED)


def digest(settings: Settings = SETTINGS) -> str:
    fingerprint = Fingerprint()
    Swarm(0, settings, fingerprint).play()
    return fingerprint.hexdigest()


def answer_with(reason: str) -> Envelope:
    number = RequestId(1, 2)
    answer = IntentAnswer(IntentId(b"i" * 32), Answer.REJECTED, reason)
    body = DelegationAccepted(number, (answer,), HeartbeatNumber(1, 3))
    return Envelope(ContractAddress("0x" + "11" * 20), number, 1, 7, body)


def test_message_differs_by_whether_it_has_a_reason_but_not_by_the_wording() -> None:
    assert message_bytes(answer_with("too late")) == message_bytes(answer_with("the deadline has passed"))
    assert message_bytes(answer_with("too late")) != message_bytes(answer_with(""))


def test_record_differs_by_its_values_but_not_by_the_wording_of_its_reason() -> None:
    first, second = IntentId(b"1" * 32), IntentId(b"2" * 32)
    assert record_values(IntentParked(first, "no funds")) == record_values(IntentParked(first, "funds missing"))
    assert record_values(IntentParked(first, "no funds")) != record_values(IntentParked(second, "no funds"))


def test_effect_without_a_code_is_an_error() -> None:
    class Unheard(SendMessage):
        pass

    with pytest.raises(KeyError):
        effect_values(Unheard(NodeName("A"), answer_with("")))


@pytest.mark.slow
def test_digest_of_a_broken_core_is_another() -> None:
    (canary,) = [canary for canary in CANARIES if canary.name == "reports before it is final"]
    sound = digest()
    with broken(canary):
        assert digest() != sound


class _Reworded(ast.NodeTransformer):
    """Every string with words in it is another one, and every docstring."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        text = node.value
        if isinstance(text, str) and WORDS.search(text) and not any(known in text for known in JUDGED_BY_WORDING):
            return ast.Constant(f"in other words: {text}")
        return node


@pytest.mark.slow
def test_digest_survives_new_names_and_reworded_texts(tmp_path: Path) -> None:
    package = Path(rota.__file__).parent
    shutil.copytree(package, tmp_path / "rota", ignore=shutil.ignore_patterns("__pycache__", "development_keys"))
    pattern = re.compile(rf"(?<![\w.\"'])({'|'.join(RENAMED)})\b|(?<=\.)({'|'.join(RENAMED)})\b")
    changed = 0
    for path in (tmp_path / "rota").rglob("*.py"):
        if path.name.endswith("_pb2.py"):
            continue
        text = path.read_text(encoding="utf-8")
        renamed = pattern.sub(lambda found: RENAMED[found[0]], text)
        if path.is_relative_to(tmp_path / "rota/sequencer"):
            renamed = ast.unparse(_Reworded().visit(ast.parse(renamed)))
        changed += renamed != text
        path.write_text(renamed, encoding="utf-8")
    assert changed > 50

    def played(*path: str) -> list[str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
        run = subprocess.run([sys.executable, "-c", DIGESTS], env=environment, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        return run.stdout.split()

    assert played(str(tmp_path)) == played(str(package.parent))
