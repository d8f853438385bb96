"""Kinds of values: how each is read from TOML or the environment, checked and written.

A kind turns a *raw* value, as TOML returns it, into the value that the node uses. The text of a `ValueError` describes
a valid value; the caller adds the place and the value found. Relative paths begin at the file's folder. A kind that may
hold a secret is shown neither in errors nor in a `repr`.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias
from urllib.parse import quote, urlsplit, urlunsplit

from rota.keys.certificates import NODE_NAME
from rota.keys.secret import Secret
from rota.model.types import ContractAddress, NodeName

PORT_MAX: Final = 65_535
WHOLE_MAX: Final = 2**63 - 1
TEXT_BYTES_MAX: Final = 4_096
ENDPOINT_BYTES_MAX: Final = 255  # As the registry has it.
ORIGINS_MAX: Final = 64
NAMES_MAX: Final = 256
WEB_SCHEMES: Final = ("http", "https")
LEDGER_SCHEMES: Final = ("http", "https", "ws", "wss")
POSTGRES_SCHEMES: Final = ("postgresql", "postgres")
SQLITE: Final = "sqlite:"
CHAIN: Final = "chain"

_ADDRESS: Final = re.compile("0x[0-9a-fA-F]{40}")
_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")

RawValue: TypeAlias = object
FLAGS: Final[Mapping[str, bool]] = {"true": True, "false": False}


class Kind(Protocol):
    """A kind of values."""

    @property
    def is_shown(self) -> bool:
        """Whether an error may show the value."""
        ...

    @property
    def right(self) -> str:
        """A valid value, as the end of the sentence `it must be …`."""
        ...

    def read(self, raw: RawValue, folder: Path) -> object:
        """Return the value of a raw value. Raises `ValueError` if it is not valid."""
        ...

    def from_text(self, text: str) -> RawValue:
        """Return the raw value for the text of an environment variable, valid or not."""
        ...


def written(raw: RawValue) -> str:
    """Return a raw value as TOML."""
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, int):
        return f"{raw:_}" if abs(raw) >= 10_000 else str(raw)
    if isinstance(raw, list | tuple):
        return f"[{', '.join(map(written, raw))}]"
    assert isinstance(raw, str), f"a default is a text, a number, a flag or a list of them, not {raw!r}"
    # TOML has the escapes of JSON; it forbids one character more than JSON does.
    return json.dumps(raw, ensure_ascii=False).replace("\x7f", "\\u007f")


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number."""

    least: int = 1
    most: int = WHOLE_MAX
    is_shown: bool = True

    @property
    def right(self) -> str:
        if self.most == WHOLE_MAX:
            return f"a whole number of at least {self.least}"
        return f"a whole number from {self.least} to {self.most}"

    def read(self, raw: RawValue, folder: Path) -> int:
        if not isinstance(raw, int) or isinstance(raw, bool) or not self.least <= raw <= self.most:
            raise ValueError(self.right)
        return raw

    def from_text(self, text: str) -> RawValue:
        return int(text) if re.fullmatch("[+-]?[0-9]{1,30}", text) else text


@dataclass(frozen=True, slots=True)
class Flag:
    """A boolean."""

    is_shown: bool = True

    @property
    def right(self) -> str:
        return "true or false"

    def read(self, raw: RawValue, folder: Path) -> bool:
        if not isinstance(raw, bool):
            raise ValueError(self.right)
        return raw

    def from_text(self, text: str) -> RawValue:
        return FLAGS.get(text.lower(), text)


@dataclass(frozen=True, slots=True)
class Names:
    """A list of names; in the environment separated by commas."""

    of: str
    form: re.Pattern[str]
    is_shown: bool = True

    @property
    def right(self) -> str:
        return f"a list of at most {NAMES_MAX} {self.of}"

    def read(self, raw: RawValue, folder: Path) -> tuple[str, ...]:
        if not isinstance(raw, list | tuple) or len(raw) > NAMES_MAX:
            raise ValueError(self.right)
        if not all(isinstance(name, str) and self.form.fullmatch(name) for name in raw):
            raise ValueError(self.right)
        return tuple(raw)

    def from_text(self, text: str) -> RawValue:
        return [part.strip() for part in text.split(",") if part.strip()]


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of the values of an enumeration."""

    members: type[Enum]
    is_shown: bool = True

    @property
    def right(self) -> str:
        *others, last = (written(member.value) for member in self.members)
        return f"{', '.join(others)} or {last}"

    def read(self, raw: RawValue, folder: Path) -> Enum:
        found = next((member for member in self.members if member.value == raw), None)
        if found is None:
            raise ValueError(self.right)
        return found

    def from_text(self, text: str) -> RawValue:
        return text


@dataclass(frozen=True, slots=True)
class _Text:
    """A text; subclasses check its form."""

    is_shown: bool = True

    @property
    def right(self) -> str:
        return f"a text of 1 to {TEXT_BYTES_MAX} bytes"

    def text(self, raw: RawValue) -> str:
        if not isinstance(raw, str) or not 1 <= len(raw.encode(errors="replace")) <= TEXT_BYTES_MAX or "\0" in raw:
            raise ValueError(self.right)
        return raw

    def from_text(self, text: str) -> RawValue:
        return text


@dataclass(frozen=True, slots=True)
class Name(_Text):
    """The name of a node, as in the Registry."""

    @property
    def right(self) -> str:
        return "a name of 1 to 63 of the characters a to z, 0 to 9, hyphen, dot and underscore"

    def read(self, raw: RawValue, folder: Path) -> NodeName:
        if not NODE_NAME.fullmatch(self.text(raw)):
            raise ValueError(self.right)
        return NodeName(self.text(raw))


@dataclass(frozen=True, slots=True)
class Place(_Text):
    """A file or a folder."""

    @property
    def right(self) -> str:
        return "the path of a file or folder, absolute or seen from the folder of this file"

    def read(self, raw: RawValue, folder: Path) -> Path:
        return folder / self.text(raw)


@dataclass(frozen=True, slots=True)
class Address(_Text):
    """The address of a contract."""

    @property
    def right(self) -> str:
        return "an address: 0x and 40 hex digits"

    def read(self, raw: RawValue, folder: Path) -> ContractAddress:
        if not _ADDRESS.fullmatch(self.text(raw)):
            raise ValueError(self.right)
        return ContractAddress(self.text(raw).lower())


@dataclass(frozen=True, slots=True)
class Host(_Text):
    """A host name or address to listen at."""

    @property
    def right(self) -> str:
        return "a host's name or address, such as 127.0.0.1, 0.0.0.0 or ::1"

    def read(self, raw: RawValue, folder: Path) -> str:
        if not _is_host(self.text(raw)):
            raise ValueError(self.right)
        return self.text(raw)


@dataclass(frozen=True, slots=True)
class Endpoint(_Text):
    """A host and a port, or several separated by commas. With `port_least` 0 the system may choose the port."""

    port_least: int = 1
    places_max: int = 1

    @property
    def right(self) -> str:
        example = "such as 10.0.0.1:31550 or [::1]:31550"
        several = f", or at most {self.places_max} of them with commas" if self.places_max > 1 else ""
        return f"a host and a port from {self.port_least} to {PORT_MAX}, {example}{several}"

    def read(self, raw: RawValue, folder: Path) -> str:
        places = self.text(raw).split(",") if self.places_max > 1 else [self.text(raw)]
        is_short = len(self.text(raw)) <= ENDPOINT_BYTES_MAX and len(places) <= self.places_max
        if not is_short or not all(self._is_place(place.strip()) for place in places):
            raise ValueError(self.right)
        return self.text(raw)

    def _is_place(self, text: str) -> bool:
        host, colon, port = text.rpartition(":")
        is_bracketed = host.startswith("[") and host.endswith("]")
        return (
            bool(colon)
            and re.fullmatch("[0-9]{1,5}", port) is not None
            and self.port_least <= int(port) <= PORT_MAX
            and (_is_address(host[1:-1], 6) if is_bracketed else ":" not in host and _is_host(host))
        )


@dataclass(frozen=True, slots=True)
class WebAddress(_Text):
    """A URL of HTTP or of a WebSocket."""

    schemes: tuple[str, ...] = LEDGER_SCHEMES
    example: str = "http://localhost:8545"

    @property
    def right(self) -> str:
        *others, last = (f"{scheme}://" for scheme in self.schemes)
        return f"an address that begins with {', '.join(others)} or {last}, such as {self.example}"

    def read(self, raw: RawValue, folder: Path) -> str:
        if _host_of(self.text(raw), self.schemes) is None:
            raise ValueError(self.right)
        return self.text(raw)


@dataclass(frozen=True, slots=True)
class WebOrigins:
    """A list of origins of web pages; in the environment separated by commas."""

    is_shown: bool = True

    @property
    def right(self) -> str:
        return f'a list of at most {ORIGINS_MAX} origins of web pages, such as "https://app.example"'

    def read(self, raw: RawValue, folder: Path) -> tuple[str, ...]:
        if not isinstance(raw, list | tuple) or len(raw) > ORIGINS_MAX:
            raise ValueError(self.right)
        for origin in raw:
            if not isinstance(origin, str) or _host_of(origin, WEB_SCHEMES) is None or origin.count("/") > 2:
                raise ValueError(self.right)
        return tuple(raw)

    def from_text(self, text: str) -> RawValue:
        return [part.strip() for part in text.split(",") if part.strip()]


@dataclass(frozen=True, slots=True)
class SqliteFile:
    """A SQLite database in one file."""

    path: Path


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A PostgreSQL database: its connection string, without a password."""

    url: str

    def with_password(self, password: Secret | None) -> str:
        """Return the connection string for the driver; it contains the password."""
        if password is None:
            return self.url
        parts = urlsplit(self.url)
        user, at, host = parts.netloc.rpartition("@")
        assert at, "a connection string with a password names a user"
        return urlunsplit(parts._replace(netloc=f"{user}:{quote(password.reveal(), safe='')}@{host}"))


@dataclass(frozen=True, slots=True)
class Database(_Text):
    """The database of the store. Errors do not show it, because it may contain a password by mistake."""

    is_shown: bool = False

    @property
    def right(self) -> str:
        return f"{SQLITE}FILE, or postgresql://USER@HOST:PORT/DATABASE without a password"

    def read(self, raw: RawValue, folder: Path) -> SqliteFile | PostgresServer:
        text = self.text(raw)
        if text.startswith(SQLITE) and not text.startswith(f"{SQLITE}//") and text != SQLITE:
            return SqliteFile(folder / text.removeprefix(SQLITE))
        if _host_of(text, POSTGRES_SCHEMES) is None:
            raise ValueError(self.right)
        parts = urlsplit(text)
        if parts.password is not None or "password" in parts.query.lower():
            raise ValueError(f"{self.right}: that stands in store.password_file or in ROTA_STORE_PASSWORD")
        if not parts.username or not parts.path.strip("/"):
            raise ValueError(self.right)
        return PostgresServer(text)


@dataclass(frozen=True, slots=True)
class RegistrySource(_Text):
    """Where the network's nodes are registered: the chain, or a file."""

    @property
    def right(self) -> str:
        return f'"{CHAIN}", or the path of a file with the nodes'

    def read(self, raw: RawValue, folder: Path) -> Path | Literal["chain"]:
        return CHAIN if self.text(raw) == CHAIN else folder / self.text(raw)


@dataclass(frozen=True, slots=True)
class Hidden(_Text):
    """A secret, which only a variable may hold."""

    is_shown: bool = False

    @property
    def right(self) -> str:
        return f"a secret of 1 to {TEXT_BYTES_MAX} bytes"

    def read(self, raw: RawValue, folder: Path) -> Secret:
        return Secret(self.text(raw))


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a listener at this host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_host(text: str) -> bool:
    return _HOST.fullmatch(text) is not None or _is_address(text, 6)


def _is_address(text: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(text).version == version
    except ValueError:
        return False


def _host_of(text: str, schemes: tuple[str, ...]) -> str | None:
    """Return the host of an address with one of these schemes; None when it is no such address."""
    if re.search(r"\s", text):
        return None
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018  # Looking at a wrong port raises.
    except ValueError:
        return None
    return parts.hostname if parts.scheme in schemes and parts.hostname else None
