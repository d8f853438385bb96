"""Automation without a leader: tasks that every node attempts, and that the ledger lets one perform. Pure.

automation.py    start here: `step(now, event) -> effects` over all triggers of a node
duty.py          one trigger: which task is attempted when     attempts.py   an attempt and its phases
strategies.py    `random` and `rank`                           standing.py   which members are at work; durations
breaker.py       pauses a trigger that fails                   tallies.py    counts of results
triggers.py      the interface for authors of triggers         settings.py   settings and all bounds
events.py        the inputs of a step                          effects.py    its orders
"""

from rota.automation.settings import Strategy, TriggerSettings
from rota.automation.strategies import Member
from rota.automation.triggers import (
    Action,
    Ask,
    Call,
    Ending,
    Here,
    LedgerEvent,
    Question,
    Read,
    Reverted,
    Sighting,
    Task,
    Trigger,
    Watch,
    Work,
)

__all__ = [
    "Action",
    "Ask",
    "Call",
    "Ending",
    "Here",
    "LedgerEvent",
    "Member",
    "Question",
    "Read",
    "Reverted",
    "Sighting",
    "Strategy",
    "Task",
    "Trigger",
    "TriggerSettings",
    "Watch",
    "Work",
]
