"""Automation without a leader: tasks that every node attempts, and that the ledger lets one perform. Pure.

automation.py    start reading here: `step(now, event) -> effects` over all triggers of a node
duty.py          one trigger: which task is attempted when     attempts.py   an attempt and its phases
strategies.py    `random` and `rank`                           standing.py   who is at work, how long things take
breaker.py       a trigger that fails rests                    tallies.py    what attempts came to
triggers.py      what users write                              settings.py   what is set, and all bounds
events.py        all that a step may be told                   effects.py    all that it may ask for
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
