"""What an operator is shown of a contract that a stranger proposes: its names are the stranger's."""

from __future__ import annotations

from dataclasses import replace

from rota.directory.consent import Decision
from rota.directory.effects import Proposal
from rota.model.genesis import encode_genesis
from rota.model.types import IntentId, NodeName, Party, RequestId
from rota.service.consent.consents import NAME_CHARACTERS_SHOWN_MAX, NAMES_SHOWN_MAX, shown_question
from tests.directory.deployment_bench import GENESIS

A, B = GENESIS.endorsers[:2]


def test_names_of_a_stranger_are_shown_without_control_characters_and_cut() -> None:
    """Others could hide a member from the operator's terminal, or make the list longer than an answer may be."""
    long = Party("x" * 100_000)
    members = (Party("alice@A"), Party("\x1b[1A\x1b[2Kbob@B"), Party("m\u202ey@B"), long, *[Party("c@C")] * 100)
    genesis = encode_genesis(replace(GENESIS, members=members))
    asked = Proposal(B, IntentId(bytes(16)), genesis, RequestId(0, 0), 5, decision=Decision.ASKED, asked_at_s=5)
    shown = shown_question(asked, A, 60)
    assert shown.members[:3] == ("alice@A", "?[1A?[2Kbob@B", "m?y@B")
    assert shown.members[3] == "x" * NAME_CHARACTERS_SHOWN_MAX + "…"
    assert (len(shown.members), shown.member_count) == (NAMES_SHOWN_MAX, len(members))
    assert (shown.is_endorser, shown.endorsers, shown.expires_at_s) == (True, GENESIS.endorsers, 65)


def test_names_of_endorsers_are_shown_in_the_same_way() -> None:
    genesis = encode_genesis(replace(GENESIS, endorsers=(A, NodeName("B\r\x1b[2K"))))
    asked = Proposal(B, IntentId(bytes(16)), genesis, RequestId(0, 0), 5, decision=Decision.ASKED, asked_at_s=5)
    assert shown_question(asked, A, 60).endorsers == (A, "B??[2K")
