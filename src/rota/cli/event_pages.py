"""The page of all log events, generated from their declarations."""

from __future__ import annotations

from typing import Final

from rota.logs.catalogue import ALL
from rota.logs.declaration import Level, LogEvent
from rota.logs.fields import FIELDS

HEAD: Final = """# Log events

This file is generated from the code by `make docs`; change the code, not the file.

A node logs to standard error. `log.format` is `console`, one line for a person, or `json`, one object a line;
`log.level` is the lowest level that comes out ([configuration](configuration.md#log)). Every line of the node is one of
the events below.

| in JSON | is |
|---|---|
| `event` | the code of the event, which is stable. A line of a library has its text here |
| `message` | the text for people, which may change: do not match it. Lines of libraries have none |
| `level` | `error`, `warning`, `info` or `debug` |
| `logger` | `rota.` and the first part of the code, or the library's name |
| `timestamp` | UTC, ISO 8601 |
| `exception` | the traceback, without local variables, where there is one |
| the others | the fields of the event, which are stable |

In the console format the text comes first and the code is in brackets. No event has private contents, keys or payloads.

| level | means |
|---|---|
| `error` | an operator must act |
| `warning` | an operator should look |
| `info` | the node's state has changed |
| `debug` | the flow of one transaction; libraries log nothing at this level |
"""
FIELDS_HEAD: Final = """## Fields

Ids of transactions are UUIDs; leaves, fingerprints and addresses are hexadecimal with `0x`.

| field | is |
|---|---|
"""
SECTIONS: Final = {Level.ERROR: "Errors", Level.WARNING: "Warnings", Level.INFO: "Info", Level.DEBUG: "Debug"}


def render_events() -> str:
    """Render the events by level, then the fields."""
    parts = [HEAD]
    for level, title in SECTIONS.items():
        has_actions = level in (Level.ERROR, Level.WARNING)
        head = "| event | fields | meaning | what to do |\n|---|---|---|---|"
        if not has_actions:
            head = "| event | fields | meaning |\n|---|---|---|"
        rows = [_row(event, has_actions) for event in sorted(ALL, key=lambda each: each.code) if event.level is level]
        parts.append(f"## {title}\n\n{head}\n" + "\n".join(rows) + "\n")
    fields = "\n".join(f"| `{name}` | {meaning} |" for name, meaning in sorted(FIELDS.items()))
    parts.append(f"{FIELDS_HEAD}{fields}\n")
    return "\n".join(parts)


def _row(event: LogEvent, has_action: bool) -> str:
    fields = ", ".join(f"`{field}`" for field in event.fields)
    cells = [f"`{event.code}`", fields, f"{event.text}. {event.meaning}"]
    if has_action:
        cells.append(event.action)
    return f"| {' | '.join(cells)} |"
