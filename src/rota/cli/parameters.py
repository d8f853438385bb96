"""What people type, read once for all commands: addresses, JSON, ids, amounts, where a node is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click

from rota.model.types import ContractAddress, address_bytes

WEB_SCHEMES: Final = ("http", "https")
AMOUNT_MAX: Final = 2**256 - 1
AMOUNT_CHARACTERS_MAX: Final = 90
_AMOUNT: Final = re.compile(r"[0-9]+(\.[0-9]+)?")
_GROUP: Final = re.compile("0x([0-9a-f]{40}|[0-9a-f]{64})")


class NodeUrl(click.ParamType[str]):
    """The JSON-RPC of a node."""

    name = "url"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Without a slash at its end."""
        text = str(value)
        try:
            parts = urlsplit(text)
            is_right = parts.scheme in WEB_SCHEMES and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_right = False
        if not is_right:
            self.fail(f"must be the address of a node, such as http://127.0.0.1:31548, not {text!r}", param, ctx)
        return text.rstrip("/")


class Json(click.ParamType[object]):
    """JSON text, or @ and the name of a file with it."""

    name = "json"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        """The value that the text stands for."""
        try:
            text = str(value)
            return json.loads(Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text)
        except (ValueError, OSError) as error:
            self.fail(f"must be JSON, or @ and the name of a file with JSON: {error}", param, ctx)


class Address(click.ParamType[ContractAddress]):
    """An address on the base ledger."""

    name = "address"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> ContractAddress:
        """In our writing."""
        address = ContractAddress(str(value).lower())
        try:
            address_bytes(address)
        except AssertionError:
            self.fail(f"must be 0x and 40 hex digits, not {value!r}", param, ctx)
        return address


class HexText(click.ParamType[str]):
    """Bytes as hex digits, or @ and the name of a file with them."""

    name = "hex"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """With 0x before them."""
        try:
            text = str(value)
            text = Path(text[1:]).read_text(encoding="utf-8").strip() if text.startswith("@") else text
            return f"0x{bytes.fromhex(text.removeprefix('0x')).hex()}"
        except (ValueError, OSError) as error:
            self.fail(f"must be hex digits, or @ and the name of a file with them: {error}", param, ctx)


class GroupName(click.ParamType[str]):
    """A privacy group: its id, or the address of its contract."""

    name = "group"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """In our writing."""
        text = str(value).lower()
        if not _GROUP.fullmatch(text):
            right = "the id of a group, 0x and 64 hex digits, or the address of its contract, 0x and 40"
            self.fail(f"must be {right}, not {value!r}", param, ctx)
        return text


class Amount(click.ParamType[str]):
    """How much of a token: a whole number of its smallest units, or with a point a number of tokens, such as 1.5."""

    name = "amount"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """As it was written; how many digits a token has behind the point its node knows."""
        text = str(value)
        if not _AMOUNT.fullmatch(text) or not text.strip("0.") or len(text) > AMOUNT_CHARACTERS_MAX:
            self.fail(f"must be a number above 0, such as 30 or 1.5, not {value!r}", param, ctx)
        if "." not in text and int(text) > AMOUNT_MAX:
            self.fail(f"must be at most {AMOUNT_MAX}, not {value!r}", param, ctx)
        return text


class Share(click.ParamType[tuple[str, str]]):
    """A payee and its amount: PARTY=AMOUNT."""

    name = "share"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """The party and its amount."""
        if isinstance(value, tuple):
            return value
        party, _, amount = str(value).rpartition("=")
        if not party or not _AMOUNT.fullmatch(amount) or len(amount) > AMOUNT_CHARACTERS_MAX:
            self.fail(f"must be PARTY=AMOUNT, such as bob@node2=5, not {value!r}", param, ctx)
        return party, amount


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, on one line.")
json_lines_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")

AMOUNT: Final = Amount()
