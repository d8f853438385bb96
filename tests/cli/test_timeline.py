"""What `rota tx explain` prints."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from rota.cli.timeline import lines_of
from rota.client import Explanation

ANSWER = {
    "id": "01234567-89ab-cdef-0123-456789abcdef",
    "role": "sender",
    "state": "EndorsementGathering",
    "waitsFor": "endorsements",
    "blockedBy": ["node3", "node4"],
    "missing": [
        {"node": "node3", "since": "2026-11-17T10:00:00Z", "toldBy": "node2", "said": "NoLedger"},
        {"node": "node4", "since": "2026-11-17T10:00:05Z", "toldBy": "node2"},
    ],
    "operators": [{"node": "node3", "since": "2026-11-17T09:00:00Z"}],
}


def test_explanation_names_each_missing_endorser_since_when_and_by_whose_word() -> None:
    found = msgspec.convert(ANSWER, Explanation)
    assert [each.node for each in found.operators] == ["node3"]
    lines = [line for line in lines_of(found, datetime(2026, 11, 17, 10, 0, 12, tzinfo=UTC)) if "Missing" in line]
    assert [line.split("UTC")[0].split("since")[0] for line in lines] == [
        "Missing      node3 has not signed ",
        "Missing      node4 has not signed ",
    ]
    assert lines[0].endswith("; it answered NoLedger (by the word of node2)")
    assert lines[1].endswith("; it has not answered (by the word of node2)")
