"""The language of scripts, for people: the meanings of the patterns of `rota.sim.script`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from rota.sim.script import COMMANDS, EXPECTATIONS


class Phrase(NamedTuple):
    """The form of a phrase, its meaning, and an example that matches its pattern."""

    usage: str
    meaning: str
    example: str


HEAD: Final = (
    ("# TEXT", "what the script shows"),
    ("network: nodes A B C", "the nodes; all of them are the committee, and all endorse"),
    ("  , leaders B C", "the first coordinators of the ranges 0, 1, …"),
    ("  , threshold 2", "how many must endorse (default: all)"),
    ("  , endorsers A B", "the endorsers (default: all)"),
    ("  , rotation strict", "or sticky (default)"),
    ("  , range 4", "blocks in a range (default 100)"),
    ("  , members A B", "the committee, if not all nodes are in it"),
    ("  , confirmations 2", "blocks on top that make one final (default 0)"),
    ("  , mode static", "or sender, or ring (default)"),
    ("  , set heartbeat_ms=200", "a timer or limit of rota.model.config"),
    ("expect: EXPECTATION", "at least one; a condition that must hold at the end"),
    ("    # TEXT", "indented, above commands: a scene's title, then its explanation"),
    ("> COMMAND", "one line each; the head ends at the first"),
)

COMMAND_PHRASES: Final = (
    Phrase(
        "submit A-1 at A [as WORD] [after A-0+B-1] [key KEY] [with PARTY] [mode MODE]",
        "a user's intent; the mode is auto or external",
        "submit i at A",
    ),
    Phrase("run 500 ms | run 2 s", "let time pass", "run 2 s"),
    Phrase(
        "until coordinator has A-1 in STATE",
        "… until a coordinator has it in this state",
        "until coordinator has i in S",
    ),
    Phrase(
        "until A-1 B-1 confirmed | reverted | STATE", "… until their senders report or reach this", "until i confirmed"
    ),
    Phrase("until active B", "… until B alone coordinates", "until active B"),
    Phrase("mine [N] [empty]", "mine blocks now; empty ones leave the pool as it is", "mine 3"),
    Phrase("wait 601 s of chain time", "the next block is that much later", "wait 9 s of chain time"),
    Phrase("reorganise N [and lose what was in them]", "the latest blocks are removed", "reorganise 1"),
    Phrase("stop mining | start mining", "no blocks; blocks again", "stop mining"),
    Phrase("crash B", "kill a node: it keeps its disk", "crash B"),
    Phrase("start B", "start it again", "start B"),
    Phrase("hang B", "it does nothing, and keeps its connections", "hang B"),
    Phrase("go on B", "it resumes", "go on B"),
    Phrase("the domain of A hangs | goes on", "it assembles nothing; it assembles again", "the domain of A hangs"),
    Phrase("stop B", "ask it to stop cleanly", "stop B"),
    Phrase("cut A and B | cut A to B", "nothing gets through, both ways or one", "cut A and B"),
    Phrase("isolate B", "cut it from all others", "isolate B"),
    Phrase("heal", "everything gets through again", "heal"),
    Phrase("lag B", "its index of the chain stops", "lag B"),
    Phrase("catch up B", "its index continues", "catch up B"),
    Phrase("take the ledger from B", "it cannot reach the chain", "take the ledger from B"),
    Phrase("give the ledger back to B", "it can again", "give the ledger back to B"),
    Phrase("hold MESSAGE from A to B", "hold such messages (* is any node)", "hold Handover from A to B"),
    Phrase("duplicate MESSAGE from A to B", "such messages arrive twice from now on", "duplicate Startup from * to *"),
    Phrase(
        "alter the next MESSAGE from B to C",
        "it lies once: another state, another leaf, another node's party",
        "alter the next EndorsementRequest from B to C",
    ),
    Phrase(
        "invent an intent in the next MESSAGE from B to C",
        "it lies once: about an intent that no user submitted",
        "invent an intent in the next EndorsementRequest from B to C",
    ),
    Phrase("D claims to be STATE[, next A]", "it sends this to all nodes, true or not", "D claims to be Active"),
    Phrase("D asks B to yield", "it sends this request, whatever its rank", "D asks B to yield"),
    Phrase("release [backwards] [twice]", "deliver held messages: the last first, each twice", "release"),
    Phrase("fail writes of B | mend writes of B", "its disk fails, or works again", "fail writes of B"),
    Phrase("cancel A-1", "its user cancels it", "cancel i"),
    Phrase("resume A-1", "its user resumes a parked one", "resume i"),
    Phrase("commit A-1", "have the prepared transition of an external intent committed", "commit i"),
    Phrase("let A-1 WORD", "from now on it behaves so", "let i spend"),
    Phrase("explain A-1", "ask its node why it is not done", "explain i"),
)

EXPECTATION_PHRASES: Final = (
    Phrase("A-1 B-1 confirmed | reverted [because REASON]", "reported so, once", "i confirmed"),
    Phrase("A-1 B-1 on the chain once", "each", "i on the chain once"),
    Phrase("A-1 assembled | permitted | dispatched N times", "so often", "i dispatched 1 time"),
    Phrase("active at the end: B | nobody", "the coordinator", "active at the end: B"),
    Phrase("B was active | was never active", "at any time", "B was active"),
    Phrase("A-1 was STATE | B was never STATE", "at its sender; as a coordinator", "B was Flush"),
    Phrase("A-1 ends before B-1", "it is reported first", "i ends before k"),
    Phrase("A-1 is explained by: TEXT", "an answer to `explain` contains it", "i is explained by: x"),
    Phrase("B sends MESSAGE [to A] | never sends …", "at any time", "B sends Startup"),
    Phrase("user of A-1 is told TEXT", "the answer to a request", "user of i is told accepted"),
    Phrase("N rounds dispatched", "in all", "2 rounds dispatched"),
    Phrase("A-1 stays STATE", "its state at its sender", "i stays Parked"),
)

WORDS: Final = (
    ("spend", "replace the one shared state, so that each depends on the previous one (default)"),
    ("mint", "make a new state, and depend on nothing"),
    ("revert, park, fail, refuse", "be reverted or parked at assembly, fail in it, or be refused by endorsers"),
    ("refuse:B+C", "be refused by these endorsers alone"),
    ("revert-on-chain", "be skipped by the ledger, in a way that may be retried"),
    ("revert-on-chain-for-good", "be skipped by the ledger, in a way that may not"),
)


def described(
    phrases: Iterable[Phrase], patterns: Iterable[tuple[str, Callable[..., object]]]
) -> list[tuple[str, str]]:
    """Usage and meaning of each; a pattern without a description is listed as it is."""
    phrases = tuple(phrases)
    bare = [pattern for pattern, _ in patterns if not any(re.fullmatch(pattern, each.example) for each in phrases)]
    return [*((each.usage, each.meaning) for each in phrases), *((pattern, "") for pattern in bare)]


def sections() -> list[tuple[str, list[tuple[str, str]]]]:
    """The whole language: headings with their lines."""
    return [
        ("A script", list(HEAD)),
        ("Commands", described(COMMAND_PHRASES, COMMANDS)),
        ("Expectations", described(EXPECTATION_PHRASES, EXPECTATIONS)),
        ("What an intent does (as WORD)", list(WORDS)),
    ]
