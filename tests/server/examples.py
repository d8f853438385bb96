"""Examples of all methods, recorded from calls on real nodes and compared with later calls.

Theory of operation. An example is the first call of a method whose answer is not empty, or the call that a test shows
(`Examples.show`). What differs from run to run is replaced: the first UUID of an example is always the same one, and so
are the first address, the first hash, every time and every port. Requests must be equal in each run after that; of
answers only the shape must be equal: names, types, and the kinds of texts. A file is written only if it fails this
comparison, so recording changes no example that still holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rota.server.table import EXAMPLES, TABLE

FOLDER: Final = Path(__file__).parents[2] / "src" / "rota" / "server" / EXAMPLES

# Longer lists and byte strings are cut. A word and the arguments of a call are shorter.
ENTRIES_MAX: Final = 2
DIGITS_MAX: Final = 400
CUT_DIGITS: Final = 16
TEXT_MAX: Final = 600

TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
TIME_IN_TEXT: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC")
NUMBERED: Final = re.compile(
    r"(?P<dispatch>\b(?:\d+|[0-9a-f]{32})/[0-9a-f]{32}\b)|(?P<uuid>\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b)"
    r"|(?P<word>\b(?:0x)?[0-9a-f]{64}\b)|(?P<address>\b0x[0-9a-f]{40}\b)|(?P<bytes>\b0x(?:[0-9a-f]{2})+\b)",
    re.IGNORECASE,
)
PORT: Final = re.compile(r"(127\.0\.0\.1:)\d+")
PEM: Final = re.compile(r"(-----BEGIN [A-Z ]+-----\n).*?(-----END [A-Z ]+-----)", re.DOTALL)
KINDS: Final = {
    "uuid": re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    "word": re.compile(r"(0x)?[0-9a-f]{64}"),
    "address": re.compile(r"0x[0-9a-f]{40}"),
    "hex": re.compile(r"0x[0-9a-f]*"),
    "time": TIME,
    "decimal": re.compile(r"\d+"),
}


@dataclass(frozen=True, slots=True)
class Example:
    """A request, its answer where it has one, and what the node sends because of it."""

    params: list[Any]
    result: Any
    is_answered: bool
    pushed: Any = None

    def written(self) -> dict[str, Any]:
        """As in a file."""
        return {
            "params": self.params,
            **({"result": self.result} if self.is_answered else {}),
            **({"pushed": self.pushed} if self.pushed is not None else {}),
        }


@dataclass(slots=True)
class Examples:
    """The example of each method, of those that were called."""

    home: Path
    calls: dict[str, Example] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)

    def take(self, method: str, params: tuple[object, ...], result: object) -> None:
        """A call. Only the first with an answer counts, and none after one that was shown."""
        held = self.calls.get(method)
        if method not in self.shown and (held is None or (is_empty(held.result) and not is_empty(result))):
            self.calls[method] = Example(list(params), result, is_answered=True)

    def show(self, method: str, params: tuple[object, ...], result: object) -> None:
        """The call that is the example."""
        self.calls[method] = Example(list(params), result, is_answered=True)
        self.shown.add(method)

    def take_silent(self, method: str, params: tuple[object, ...]) -> None:
        """A call without an answer."""
        self.calls.setdefault(method, Example(list(params), None, is_answered=False))

    def take_pushed(self, method: str, message: Any) -> None:  # noqa: ANN401  # JSON
        """What the node sent because of the example of this method; the first counts."""
        held = self.calls[method]
        if held.pushed is None:
            self.calls[method] = Example(held.params, held.result, held.is_answered, message)

    def faults(self) -> list[str]:
        """Where the recorded examples differ from the calls; empty when all hold."""
        faults = []
        for method in TABLE:
            recorded = read_example(method)
            if method not in self.calls:
                faults.append(f"{method}: is not called")
            elif recorded is None:
                faults.append(f"{method}: has no example")
            else:
                faults += [f"{method}: {each}" for each in differences(recorded, self.normalised(method))]
        return faults

    def record(self) -> list[str]:
        """Write the examples that are missing or do not hold, and remove those of no method; returns the written."""
        FOLDER.mkdir(exist_ok=True)
        for path in FOLDER.glob("*.json"):
            if path.stem not in TABLE:
                path.unlink()
        written = []
        for method in filter(self.calls.__contains__, TABLE):
            recorded, fresh = read_example(method), self.normalised(method)
            if recorded is None or differences(recorded, fresh):
                text = json.dumps(fresh, indent=1, ensure_ascii=False) + "\n"
                (FOLDER / f"{method}.json").write_text(text, encoding="utf-8")
                written.append(method)
        return written

    def normalised(self, method: str) -> dict[str, Any]:
        """The example as it is written."""
        names = _Names(self.home)
        plain = json.loads(json.dumps(self.calls[method].written()))
        return {part: names.of(value, is_cut=part != "params") for part, value in plain.items()}


def read_example(method: str) -> dict[str, Any] | None:
    """The recorded example; None without a file."""
    path = FOLDER / f"{method}.json"
    if not path.is_file():
        return None
    recorded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return recorded


def is_empty(result: object) -> bool:
    """An answer that shows nothing."""
    return result in (None, [], {}, "", "0x")


class _Names:
    """The replacements in one example: equal texts become equal ones."""

    def __init__(self, home: Path) -> None:
        self._home: Final = str(home)
        self._given: Final[dict[str, dict[str, str]]] = {kind: {} for kind in _MAKE}

    def of(self, value: Any, is_cut: bool) -> Any:  # noqa: ANN401  # JSON
        """The value with replaced texts; lists of an answer are cut."""
        if isinstance(value, dict):
            return {self._text(name): self.of(each, is_cut) for name, each in value.items()}
        if isinstance(value, list):
            return [self.of(each, is_cut) for each in (value[:ENTRIES_MAX] if is_cut else value)]
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        text = PEM.sub(r"\1…\n\2", text.replace(self._home, "/var/lib/rota"))
        text = TIME_IN_TEXT.sub("2026-01-31 12:00:00 UTC", TIME.sub(_time, text))
        text = PORT.sub(r"\g<1>31550", text)
        text = NUMBERED.sub(self._numbered, text)
        return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"

    def _numbered(self, found: re.Match[str]) -> str:
        kind, text = str(found.lastgroup), found[0].lower()
        if kind == "bytes":
            return text if len(text) <= DIGITS_MAX else text[: CUT_DIGITS + 2]
        if set(text.removeprefix("0x")) == {"0"}:
            return text
        given = self._given[kind]
        return given.setdefault(text, _MAKE[kind](len(given) + 1, text))


def _time(found: re.Match[str]) -> str:
    return f"2026-01-31T12:00:00{'.' + '0' * (len(found[1]) - 1) if found[1] else ''}Z"


def _uuid(number: int, _: str) -> str:
    return f"{number:08x}-0000-4000-8000-{number:012x}"


def _word(number: int, text: str) -> str:
    return ("0x" if text.startswith("0x") else "") + f"{(0xA0 + number) % 256:02x}" * 32


def _address(number: int, _: str) -> str:
    return "0x" + f"{number:02x}" * 20


def _dispatch(number: int, text: str) -> str:
    first, _ = text.split("/")
    return f"{number:032x}/{number + 1:032x}" if len(first) == 32 else f"{number}/{number * 2:032x}"


_MAKE: Final[dict[str, Callable[[int, str], str]]] = {
    "uuid": _uuid,
    "word": _word,
    "address": _address,
    "dispatch": _dispatch,
}


def differences(recorded: dict[str, Any], fresh: dict[str, Any]) -> list[str]:
    """Where two examples differ: requests in their values but for numbers, the rest in its shape.

    Of answers, null has any shape, and an object of numbers is a count by name whose names may differ.
    """
    faults = [*_differences("params", recorded["params"], fresh["params"], is_exact=True)]
    for part in ("result", "pushed"):
        if (part in recorded) is not (part in fresh):
            faults.append(f"{part} is there only {'before' if part in recorded else 'now'}")
        elif part in recorded:
            faults += _differences(part, recorded[part], fresh[part], is_exact=False)
    return faults


def _differences(place: str, old: Any, new: Any, is_exact: bool) -> Iterator[str]:  # noqa: ANN401  # JSON
    if not is_exact and (None in (old, new) or (is_counts(old) and is_counts(new))):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(set(old) ^ set(new)):
            yield f"{place}.{name} is there only {'before' if name in old else 'now'}"
        for name in sorted(set(old) & set(new)):
            yield from _differences(f"{place}.{name}", old[name], new[name], is_exact)
    elif isinstance(old, list) and isinstance(new, list):
        if bool(old) is not bool(new) or (is_exact and len(old) != len(new)):
            yield f"{place} has {len(new)} entries, and had {len(old)}"
        for number, (one, other) in enumerate(zip(old, new, strict=False)):
            yield from _differences(f"{place}[{number}]", one, other, is_exact)
    elif kind_of(old) != kind_of(new):
        yield f"{place} is {kind_of(new)}, and was {kind_of(old)}"
    elif is_exact and isinstance(old, str) and kind_of(old) != "hex" and old != new:
        yield f"{place} is {new!r}, and was {old!r}"


def is_counts(value: object) -> bool:
    """An object of numbers, or one without entries."""
    return isinstance(value, dict) and all(type(each) is int for each in value.values())


def kind_of(value: object) -> str:
    """Its type, or the kind of text."""
    if isinstance(value, str):
        return next((kind for kind, pattern in KINDS.items() if pattern.fullmatch(value)), "text")
    return type(value).__name__
