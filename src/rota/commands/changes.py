"""The change that a submission means: its parties, its application and the command's id; nothing else.

Parties are a set: their order, repetitions and the fields that they came in do not matter. The content of the command
is no part of it: another payload under the same id is the same change, and its answer shows that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from rota.commands.errors import invalid_field, missing_field
from rota.model.digests import keccak
from rota.model.types import NodeName, Party
from rota.schema.commands import ChangeId, Command, DeduplicationDuration, Period

ID_CHARACTERS_MAX: Final = 255
PARTIES_MAX: Final = 100
# The longest duration that a google.protobuf.Duration can hold: about ten thousand years.
DURATION_US_MAX: Final = 315_576_000_000_000_000
OFFSET_MAX: Final = 2**63 - 1

_TEXT: Final = b"rota command change"
_UNFIT: Final = re.compile("[\0\ud800-\udfff]")
_LENGTH_BYTES: Final = 4


def change_of(command: Command) -> ChangeId:
    """The hash of all parts, each with its length before it, so that no two changes have the same bytes."""
    parts = (command.application_id, command.command_id, *command.parties)
    encoded = [part.encode() for part in parts]
    return ChangeId(keccak(_TEXT + b"".join(len(each).to_bytes(_LENGTH_BYTES, "big") + each for each in encoded)))


def command_of(
    node: NodeName,
    *,
    application_id: str,
    command_id: str,
    party: str,
    act_as: Sequence[str],
    submission_id: str,
    period: Period | None,
) -> Command:
    """A user's command, checked. `CommandRejected` names the field, before anything of it is stored."""
    for field, text in (("application_id", application_id), ("command_id", command_id)):
        if not text:
            raise missing_field(field)
        check_id(field, text)
    check_id("submission_id", submission_id)
    check_period(period)
    named = [("party", party)] if party else []
    named += [(f"act_as[{place}]", each) for place, each in enumerate(act_as)]
    return Command(application_id, command_id, parties_of(node, named), submission_id, period)


def parties_of(node: NodeName, named: Sequence[tuple[str, str]]) -> tuple[Party, ...]:
    """Parties of this node from fields and texts such as `alice` or `alice@node1`: full names, sorted, each once."""
    if not named:
        raise missing_field("act_as", "or party: a command has at least one party")
    if len(named) > PARTIES_MAX:
        raise invalid_field("act_as", f"must be at most {PARTIES_MAX} parties, not {len(named)}")
    return tuple(sorted({party_of(node, field, text) for field, text in named}))


def party_of(node: NodeName, field: str, text: str) -> Party:
    """A party of this node."""
    check_id(field, text)
    name, at, home = text.rpartition("@")
    if not at:
        name, home = text, node
    if not name or home != node:
        raise invalid_field(field, f"must be a party of this node, such as alice@{node}, not {text!r}")
    return Party(f"{name}@{home}")


def check_id(field: str, text: str) -> None:
    """Check that a text is not too long, and that every database can hold it."""
    if len(text) > ID_CHARACTERS_MAX or _UNFIT.search(text):
        raise invalid_field(field, f"must be at most {ID_CHARACTERS_MAX} characters, no NUL and no half of a pair")


def check_period(period: Period | None) -> None:
    """Check that a period is possible at all; the desk decides whether it can be granted."""
    match period:
        case None:
            return
        case DeduplicationDuration(duration_us):
            if not 0 <= duration_us <= DURATION_US_MAX:
                wanted = f"must be from 0 s to {DURATION_US_MAX // 1_000_000} s"
                raise invalid_field("deduplication_duration", f"{wanted}, not {duration_us / 1_000_000:g} s")
        case _:
            if not 0 <= period.offset <= OFFSET_MAX:
                raise invalid_field("deduplication_offset", f"must be 0 or more, not {period.offset}")
