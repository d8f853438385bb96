"""Writes a new file with every key, and the reference page, both from `sections`.

A new file sets the given keys. Every other key is a comment with its default and description.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from textwrap import wrap
from typing import Final

from rota.server.configuring.keys import NOTHING, REQUIRED, Key
from rota.server.configuring.kinds import RawValue, written
from rota.server.configuring.lines import lines_of
from rota.server.configuring.sections import DOMAINS, OPEN_SECTIONS, SECTIONS, Section

WIDTH: Final = 118
HEAD: Final = (
    "The settings of a Rota node. What is commented out is set to its default, or left out where it says so.",
    "A variable of the environment stands before this file: ROTA_LEDGER_URL for url in [ledger].",
    "Relative paths begin at the folder of this file.",
)


def write_configuration(given: Mapping[str, RawValue]) -> str:
    """Return the text of a new file that sets these keys, given by path."""
    known = {key.path for section in SECTIONS for key in section.keys if not key.is_environment_only}
    assert given.keys() <= known, f"{sorted(given.keys() - known)} cannot be set in a file"
    parts = ["\n".join(f"# {line}" for line in HEAD)]
    parts += [_written_section(section, given) for section in SECTIONS]
    return "\n\n".join(parts) + "\n"


def with_setting(text: str, path: str, raw: RawValue) -> str:
    """Return the text of a file with one more key: in place of its comment, or first in its section.

    Raises `ValueError` if the key is set already, or if the file's form does not allow it.
    """
    section, _, name = path.partition(".")
    document, lines_by_key = tomllib.loads(text), lines_of(text)
    if (section, name) in lines_by_key:
        raise ValueError(f"{path}: is set already, on line {lines_by_key[section, name]}")
    lines = text.split("\n")
    header = next((at for at, line in enumerate(lines) if re.fullmatch(rf"\s*\[\s*{section}\s*\].*", line)), None)
    setting = f"{name} = {written(raw)}"
    if header is None:
        lines += [f"[{section}]", setting, ""]
    else:
        end = next((at for at in range(header + 1, len(lines)) if lines[at].lstrip().startswith("[")), len(lines))
        comment = re.compile(rf"#\s*{name}\s*=.*")
        found = next((at for at in range(header + 1, end) if comment.fullmatch(lines[at])), None)
        lines[header + 1 if found is None else found : header + 1 if found is None else found + 1] = [setting]
    changed = "\n".join(lines)
    if not _says(changed, {**document, section: {**document.get(section, {}), name: raw}}):
        raise ValueError(f"{path}: cannot be set by a programme in this file; write {setting} into [{section}]")
    return changed


def _says(text: str, document: Mapping[str, object]) -> bool:
    try:
        return tomllib.loads(text) == document
    except tomllib.TOMLDecodeError:
        return False


def _written_section(section: Section, given: Mapping[str, RawValue]) -> str:
    lines = _comment(section.text)
    if section in OPEN_SECTIONS:
        return "\n".join([*lines, f"# [{section.name}.NAME]", "# key = value"])
    lines.append(f"[{section.name}]")
    for key in section.keys:
        if not key.is_environment_only:
            lines += ["", *_comment(key.text), _setting(key, given)]
    return "\n".join(lines)


def _setting(key: Key, given: Mapping[str, RawValue]) -> str:
    unit = f"  # {key.unit}" if key.unit else ""
    if key.path in given:
        return f"{key.name} = {written(given[key.path])}{unit}"
    if key.default is NOTHING or key.default is REQUIRED:
        return f"# {key.name} ="
    return f"# {key.name} = {written(key.default)}{unit}"


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in wrap(text, WIDTH)]


def render_reference() -> str:
    """Return the page that lists all keys."""
    return "\n\n".join([*_INTRODUCTION, *(_reference_section(section) for section in SECTIONS)]) + "\n"


_INTRODUCTION: Final = (
    "# Configuration",
    "This file is generated from the code by `make docs`; change the code, not the file.",
    "A node has one TOML file, `config.toml` in the folder that [`rota init`](setup.md) makes. Every key has a "
    "variable of the environment that takes precedence over the file: `ROTA_`, the section and the key, in capitals, "
    "such as `ROTA_LEDGER_URL`. Relative paths begin at the folder of the file.",
    "A node reports all errors at start, each with its line, the value and what is valid: a wrong type or value, an "
    "unknown section, key or variable, settings that contradict one another.",
    "```text\n"
    'config.toml:14: ledger.chain_id: must be a whole number of at least 1, not "1337"\n'
    "config.toml:31: ledger.confirmation: is not known; did you mean confirmations?\n"
    "ROTA_RPC_PORT: rpc.port: must be a whole number from 0 to 65535, not 70000\n"
    "```",
    "A password never stands in the file. It is the first line of a file of mode 600, or a variable.",
)


def _reference_section(section: Section) -> str:
    head = f"## [{section.name}]\n\n{section.text}"
    if section is DOMAINS:
        return (
            f"{head} The domain is given its table as it is, and says itself what is wrong in it. A table for a domain "
            "that is not installed is refused. There are no variables for these."
        )
    if section in OPEN_SECTIONS:
        return (
            f"{head} A table for a trigger that is not there is refused. The settings have variables too, such as "
            "`ROTA_TRIGGERS_ADVANCE_EPOCHS_STRATEGY`. See [automation](automation.md)."
        )
    rows = ["| key | default | unit | |", "|---|---|---|---|", *map(_reference_row, section.keys)]
    return head + "\n\n" + "\n".join(rows)


def _reference_row(key: Key) -> str:
    name = f"`{key.variable}`, a variable only" if key.is_environment_only else f"`{key.name}`"
    if key.default is REQUIRED:
        default = "required"
    else:
        default = "none" if key.default is NOTHING else f"`{written(key.default)}`"
    return f"| {name} | {default} | {key.unit} | {key.text.replace('|', chr(92) + '|')} |"
