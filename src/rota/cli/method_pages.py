"""The pages of the JSON-RPC methods, generated from the OpenRPC document: an index, one page per method, all types."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from rota.rpc.errors import ErrorCode
from rota.rpc.formats import Format
from rota.rpc.methods import Method
from rota.server.table import TABLE, Example, document, example_of

INDEX: Final = "methods.md"
FOLDER: Final = "methods"
TYPES: Final = "types.md"
WIDTH: Final = 100
# Answers of these types have a bound of their own.
SHORT: Final = ("string", "integer", "number", "boolean", "null")
GENERATED: Final = "Generated from the code by `rota docs`"

HEAD: Final = f"""# All methods

{GENERATED}; a node serves the same as an OpenRPC document (`rpc.discover`). [The API](api.md) has the rules for all of
them, and [types](methods/types.md) has every type. A parameter with ? may be left out.

Each method has a page with its parameters, its errors and an example. The examples are recorded from real nodes by
`make examples`, and a test compares them with the answers of real nodes. Ids, hashes, addresses, times and ports are
replaced by examples of the same form; lists of answers are cut to two entries, and long byte strings to eight bytes.
"""

# In the order in which an application meets them.
FAMILIES: Final = {
    "ptx": "Transactions: submitting, following, types, listeners",
    "pgroup": "Privacy groups, their contracts and messages",
    "pstate": "Private states",
    "keymgr": "Keys",
    "domain": "Domains and their contracts",
    "transport": "This node among the others",
    "reg": "Registered nodes",
    "bidx": "The base ledger",
    "seq": "The sequencer",
    "consent": "Consent: contracts that name this node",
    "node": "The node itself",
    "settle": "Settlements",
    "cmd": "Commands",
    "trigger": "Automation",
    "debug": "Fault finding",
    "rpc": "The document",
}

WHEN: Final = {
    ErrorCode.NOT_AUTHORISED: "the caller lacks the role, or does not hold the parties of the request",
    ErrorCode.INVALID_PARAMETERS: "a parameter is wrong; `data.field` names it",
    ErrorCode.INVALID_REQUEST: "the call came over HTTP",
    ErrorCode.KEY_USED: "the idempotency key belongs to an earlier transaction",
    ErrorCode.OUTCOME_UNKNOWN: "the store has not answered whether it accepted the request",
    ErrorCode.OVERLOADED: "the predicted wait is too long; `data.retryAfterS` has the time until a retry",
    ErrorCode.NOT_REACHED: "the node has not indexed the position in `atLeast`",
    ErrorCode.COMMAND_REJECTED: "the command is rejected; `data.errorId` has the reason",
    ErrorCode.ANSWER_TOO_LONG: "the answer exceeds the limit; ask for fewer entries",
    ErrorCode.INTERNAL: "the node cannot answer now; try again",
}


class NoExampleError(Exception):
    """A method has no recorded example."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} has no example; call it in tests/server/test_every_method.py, then run `make examples`"
        )


def render_methods() -> Mapping[str, str]:
    """The index, the page of each method and that of the types, by their paths in docs/."""
    unknown = {method.family for method in TABLE.values()} - set(FAMILIES)
    assert not unknown, f"families without a heading: {', '.join(sorted(unknown))}"
    described = {each["name"]: each for each in document()["methods"]}
    pages = {f"{FOLDER}/{name}.md": _page(method, described[name]) for name, method in TABLE.items()}
    return {INDEX: _index(), f"{FOLDER}/{TYPES}": _types(), **pages}


def _index() -> str:
    parts = [HEAD]
    for family, heading in FAMILIES.items():
        rows = "\n".join(_row(method) for method in TABLE.values() if method.family == family)
        if rows:
            parts.append(f"## {heading}\n\n| method | role | what it does |\n|---|---|---|\n{rows}\n")
    return "\n".join(parts)


def _row(method: Method) -> str:
    parameters = ", ".join(each.name if each.is_required else f"{each.name}?" for each in method.parameters)
    name = f"[`{method.name}`]({FOLDER}/{method.name}.md)`({parameters})`"
    return f"| {name} | {method.role.value} | {_line(method.summary)} |"


# The page of a method.


def _page(method: Method, described: Mapping[str, Any]) -> str:
    example = example_of(method.name)
    if example is None:
        raise NoExampleError(method.name)
    over = "over a WebSocket only" if method.needs_connection else "over HTTP or a WebSocket"
    parts = [
        f"# {method.name}",
        _paragraph(method.summary),
        f"Role: `{method.role.value}`. Call it {over}. [All methods](../{INDEX})",
        "## Parameters",
        *_parameters(described["params"]),
        "## Result",
        *_result(described["result"], method.is_silent),
        "## Errors",
        _table(("code", "name", "when"), (_error(code) for code in errors_of(method, described))),
        "[All codes](../troubleshooting.md#json-rpc), with causes and actions.",
        "## Example",
        *_example(method.name, example),
    ]
    return "\n\n".join(parts) + "\n"


def _parameters(given: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    listed = list(given)
    if not listed:
        yield "None."
        return
    rows = [(f"`{each['name']}`", _kind(each["schema"]), _need(each), _line(each["summary"])) for each in listed]
    yield _table(("parameter", "type", "", "meaning"), rows)
    for name in dict.fromkeys(name for each in listed for name in _named(each["schema"])):
        yield from _struct(name, "###")


def _need(parameter: Mapping[str, Any]) -> str:
    return "required" if parameter["required"] else "optional"


def _result(result: Mapping[str, Any], is_silent: bool) -> Iterator[str]:
    if is_silent:
        yield "The node answers only if the call fails."
        return
    meaning = f": {_line(result['summary'])}." if result["summary"] else "."
    yield f"`{result['name']}`, {_kind(result['schema'])}{meaning}"
    for name in _named(result["schema"]):
        yield from _struct(name, "###")


def errors_of(method: Method, described: Mapping[str, Any]) -> list[ErrorCode]:
    """The codes that the method can answer with, beside those of requests that name no method."""
    schemas = [each["schema"] for each in described["params"]]
    named = (_components()[name] for schema in schemas for name in _named(schema))
    fields = {each.name for each in method.parameters}.union(*(each.get("properties", ()) for each in named))
    holds = {
        ErrorCode.NOT_AUTHORISED: True,
        ErrorCode.INVALID_PARAMETERS: bool(method.parameters),
        ErrorCode.INVALID_REQUEST: method.needs_connection,
        ErrorCode.KEY_USED: method.submits,
        ErrorCode.OUTCOME_UNKNOWN: method.submits,
        ErrorCode.OVERLOADED: method.submits,
        ErrorCode.NOT_REACHED: "atLeast" in fields,
        ErrorCode.COMMAND_REJECTED: method.family == "cmd",
        ErrorCode.ANSWER_TOO_LONG: described["result"]["schema"].get("type") not in SHORT,
        ErrorCode.INTERNAL: True,
    }
    return [code for code, is_possible in holds.items() if is_possible]


def _error(code: ErrorCode) -> tuple[str, ...]:
    return f"\N{MINUS SIGN}{-code.value}", f"`{code.name}`", WHEN[code]


def _example(name: str, example: Example) -> Iterator[str]:
    is_answered = example.result is not msgspec.UNSET
    identified = {"id": 1} if is_answered else {}
    yield "Request:"
    yield _fence({"jsonrpc": "2.0", **identified, "method": name, "params": example.params})
    if is_answered:
        yield "Response:"
        yield _fence({"jsonrpc": "2.0", "id": 1, "result": example.result})
    if example.pushed is not msgspec.UNSET:
        yield "The node then sends on the same connection:"
        yield _fence(example.pushed)


def _fence(value: object) -> str:
    return f"```json\n{compact(value)}\n```"


def compact(value: Any, indent: str = "", before: int = 0) -> str:  # noqa: ANN401  # JSON
    """JSON in which a list or an object that fits a line stands in one."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or not value or len(indent) + before + len(line) < WIDTH:
        return line
    inner = f"{indent}  "
    if isinstance(value, dict):
        named = ((json.dumps(name, ensure_ascii=False) + ": ", each) for name, each in value.items())
        parts = [f"{inner}{name}{compact(each, inner, len(name))}" for name, each in named]
        return "{\n" + ",\n".join(parts) + f"\n{indent}}}"
    return "[\n" + ",\n".join(inner + compact(each, inner) for each in value) + f"\n{indent}]"


# Types.


def _types() -> str:
    structs = [part for name in _components() for part in _struct(name, "##")]
    used = json.dumps(document())
    formats = {each.__name__: each.right for each in _formats() if f'"title": "{each.__name__}"' in used}
    rows = [(f"`{name}`", _line(right)) for name, right in sorted(formats.items())]
    head = f"# Types of the API\n\n{GENERATED}. An answer may leave out optional fields."
    texts = "## Formats\n\nEach format is a JSON text. The node writes it in one form, and accepts the forms below."
    return "\n\n".join([head, texts, _table(("format", "must be"), rows), *structs]) + "\n"


def _struct(name: str, level: str) -> Iterator[str]:
    """A heading, the description and the fields of a type."""
    schema = _components()[name]
    required = set(schema.get("required", ()))
    yield f"{level} `{name}`"
    if schema.get("description"):
        yield _paragraph(schema["description"])
    fields = schema.get("properties", {})
    rows = [(f"`{field}`", _kind(each), _default(field in required, each)) for field, each in fields.items()]
    if rows:
        yield _table(("field", "type", ""), rows)


def _default(is_required: bool, schema: Mapping[str, Any]) -> str:
    if is_required:
        return "required"
    default = schema.get("default")
    return "optional" if default in (None, "", [], {}) else f"default `{json.dumps(default)}`"


@cache
def _components() -> Mapping[str, Any]:
    components: Mapping[str, Any] = document()["components"]["schemas"]
    return dict(sorted(components.items()))


def _formats(kind: type[Format] = Format) -> Iterator[type[Format]]:
    """All formats of texts."""
    for below in kind.__subclasses__():
        yield below
        yield from _formats(below)


def _named(schema: Mapping[str, Any]) -> list[str]:
    """The types that a schema names at its top: itself, of a list, or one of several."""
    if "$ref" in schema:
        return [schema["$ref"].rpartition("/")[2]]
    below = [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])]
    return [name for each in below for name in _named(each)]


def _kind(schema: Mapping[str, Any]) -> str:
    """A type in words, with a link where it has a name."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[`{name}`]({TYPES}#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(each) for each in schema["anyOf"] if each.get("type") != "null"))
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(each)}`" for each in schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        inner = _kind(schema["items"]) if schema.get("items") else ""
        return "list of objects" if inner == "object" else f"list of {inner}" if inner else "list"
    if kind == "object":
        of = schema.get("additionalProperties")
        return f"object of {_kind(of)}" if isinstance(of, dict) and of else "object"
    if kind == "string" and "title" in schema:
        return f"[`{schema['title']}`]({TYPES}#formats)"
    words = {
        "string": "text",
        "integer": "whole number",
        "number": "number",
        "boolean": "true or false",
        "null": "null",
    }
    return words.get(str(kind), "any JSON")


def _paragraph(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" if line[0] != "---" else f"|{'|'.join(line)}|" for line in lines)
