"""A method of the API: a typed function, from whose signature all else is derived.

Theory of operation. `@method("family_name", role=...)` reads the signature once: the first parameter is the node,
narrowed to the protocol that the method needs; each of the others is a parameter of the call, with its type, its
description (`Annotated[..., Meta(description=...)]`) and whether it may be left out. From this come the decoders,
the errors that name the parameter, and the document that `rpc.discover` serves: none of them can disagree with the
function.

A method whose second parameter is a `Subscriber` needs a lasting connection and gets the caller's; over HTTP it is
refused. One that `is_silent` is answered only when it fails.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from rota.ports.time_slice import SLICE_S
from rota.rpc.credentials import Role
from rota.rpc.errors import Rejected, invalid
from rota.rpc.formats import Format, read
from rota.rpc.subscriptions import Subscriber

_AT: Final = re.compile(r"(?s)(.*) - at `\$(.*)`")
_MISSING: Final = re.compile("Object missing required field `([^`]*)`")
_UNKNOWN: Final = re.compile("Object contains unknown field `(.*)`")
_EXPECTED: Final = re.compile(r"Expected `([^`]*)`(.*?)(?:, got `([^`]*)`)?")
_WORDS: Final = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


# Parts of one message under way at a time: all that one write ends continues in one turn of the event loop.
UNDER_WAY_MAX: Final = 256
# Of these, those that begin in one turn.
BEGUN_TOGETHER_MAX: Final = 8

T = TypeVar("T")


async def begun_in_order(work: Iterable[Coroutine[Any, Any, T]]) -> list[asyncio.Task[T]]:
    """Run parts of one message in tasks and return them when they have ended. Some begin in each turn of the event
    loop.

    One begins in the first turn. Some calls take several milliseconds before they wait for anything; while a turn takes
    less than half of a time slice, the next one has twice as many.
    """
    begun: list[asyncio.Task[T]] = []
    free = asyncio.Semaphore(UNDER_WAY_MAX)
    together, room = 1, 1
    async with asyncio.TaskGroup() as tasks:
        for each in work:
            await free.acquire()
            task = tasks.create_task(each)
            task.add_done_callback(lambda _: free.release())
            begun.append(task)
            room -= 1
            if not room:
                began_s = time.perf_counter()
                await asyncio.sleep(0)
                is_short = time.perf_counter() - began_s < SLICE_S / 2
                together = room = min(2 * together, BEGUN_TOGETHER_MAX) if is_short else 1
    return begun


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a method: its name in JSON, and the function's argument."""

    name: str
    argument: str
    type: Any
    description: str
    is_required: bool
    decoder: msgspec.json.Decoder[Any] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a method."""

    name: str
    type: Any
    description: str


@dataclass(frozen=True, slots=True)
class Method:
    """One method: name, parameters, result, required role, and its function."""

    name: str
    role: Role
    summary: str
    parameters: tuple[Parameter, ...]
    result: Result
    function: Callable[..., Awaitable[object]] = field(compare=False)
    needs_connection: bool = False
    is_silent: bool = False
    submits: bool = False

    @property
    def family(self) -> str:
        """The part of the name before the first separator: `ptx`, `seq`, `rpc`."""
        return re.split("[_.]", self.name)[0]

    def read(self, given: bytes) -> dict[str, object]:
        """The arguments for the function, from a JSON list or object; `Rejected` names the invalid parameter.

        An optional parameter may also be null, at any place.
        """
        arguments: dict[str, object] = {}
        for parameter, raw in zip_longest(self.parameters, self._in_order(given)):
            if raw is not None and (parameter.is_required or bytes(raw) != b"null"):
                arguments[parameter.argument] = _read_one(parameter, raw)
            elif parameter.is_required:
                raise invalid(parameter.name, f"is missing; {self.name} takes ({self._signature()})")
        return arguments

    def _in_order(self, given: bytes) -> list[msgspec.Raw | None]:
        if not given or given == b"null":
            return []
        if given[:1] == b"{":
            named = msgspec.json.decode(given, type=dict[str, msgspec.Raw])
            return [named.get(parameter.name) for parameter in self.parameters]
        if given[:1] != b"[":
            raise invalid("params", "must be a list, or an object with the parameters by name")
        listed: list[msgspec.Raw | None] = [*msgspec.json.decode(given, type=list[msgspec.Raw])]
        if len(listed) > len(self.parameters):
            raise invalid("params", f"are {len(listed)}, but {self.name} takes ({self._signature()})")
        return listed

    def _signature(self) -> str:
        return ", ".join(p.name if p.is_required else f"{p.name}?" for p in self.parameters)


def method(
    name: str, role: Role, answers: str, is_silent: bool = False, submits: bool = False
) -> Callable[[Callable[..., Awaitable[object]]], Method]:
    """Make a method of a function; `answers` is the name of its result.

    One that `submits` has the node accept a transaction: its idempotency key may be used, the outcome may be unknown,
    and the node may be overloaded. Its page names these errors.
    """

    def made(function: Callable[..., Awaitable[object]]) -> Method:
        hints = get_type_hints(function, include_extras=True)
        taken = list(inspect.signature(function).parameters.values())[1:]
        needs_connection = bool(taken) and hints[taken[0].name] is Subscriber
        if needs_connection:
            taken = taken[1:]
        parameters = tuple(
            _parameter(each.name, hints[each.name], each.default is inspect.Parameter.empty) for each in taken
        )
        summary = inspect.getdoc(function)
        assert summary, f"{name} has no docstring, which is its description"
        result = Result(answers, hints["return"], _description_of(hints["return"]))
        return Method(name, role, summary, parameters, result, function, needs_connection, is_silent, submits)

    return made


def decode_format(wanted: type, given: object) -> object:
    """For msgspec: the reader of formats."""
    assert issubclass(wanted, Format), f"there is no way to read {wanted.__name__}"
    return read(wanted, given)


def _parameter(argument: str, kind: Any, is_required: bool) -> Parameter:  # noqa: ANN401  # a type is any object
    description = _description_of(kind)
    assert description, f"parameter {argument} has no description"
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind, dec_hook=decode_format)
    return Parameter(_camel(argument), argument, kind, description, is_required, decoder)


def _description_of(kind: Any) -> str:  # noqa: ANN401  # a type is any object
    if get_origin(kind) is Annotated:
        metas = (meta for meta in get_args(kind)[1:] if isinstance(meta, msgspec.Meta))
        return next((meta.description for meta in metas if meta.description), "")
    return ""


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def _read_one(parameter: Parameter, raw: msgspec.Raw) -> object:
    try:
        return parameter.decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise rejection_of(parameter.name, str(error)) from None


def rejection_of(name: str, text: str) -> Rejected:
    """An error of msgspec as ours: the path in the client's names, and what is valid."""
    at = _AT.fullmatch(text)
    flaw, path = (at[1], at[2]) if at else (text, "")
    if missing := _MISSING.fullmatch(flaw):
        return invalid(f"{name}{path}.{missing[1]}", "is missing")
    if unknown := _UNKNOWN.fullmatch(flaw):
        return invalid(f"{name}{path}.{unknown[1]}", "must be left out: there is no such field")
    expected = _EXPECTED.fullmatch(flaw)
    if expected is not None:
        right = " or ".join(_WORDS.get(word, word) for word in expected[1].split(" | "))
        got = f", not {_WORDS.get(expected[3], expected[3])}" if expected[3] else ""
        flaw = f"must be {right}{expected[2]}{got}"
    return invalid(f"{name}{path}", flaw)
