"""Reads the configuration from a file and the environment, or reports all its errors.

A variable `ROTA_SECTION_KEY` takes precedence over the file. The kind of each key reads its value; an unknown key is
reported with the most similar known one; then the rules about several settings run. An error names the file and line or
the variable, the key, the value found and a valid one. All errors are reported together, except for a text that is no
TOML, where only the first one can be found.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from rota.automation.settings import TriggerSettings
from rota.ledger.client import ClientLimits
from rota.ledger.follower import FollowerLimits
from rota.model.config import Config
from rota.server.configuring.contradictions import contradictions_of
from rota.server.configuring.flaws import ConfigurationRejected, Flaw, Place
from rota.server.configuring.keys import NOTHING, REQUIRED, Key
from rota.server.configuring.kinds import RawValue
from rota.server.configuring.lines import KeyPath, lines_of
from rota.server.configuring.sections import (
    DOMAINS,
    SECTIONS,
    TRIGGERS,
    AutomationSection,
    CommandsSection,
    ConsentSection,
    ContractsSection,
    LedgerSection,
    LogSection,
    NodeConfiguration,
    NodeSection,
    OperationsSection,
    ProvingSection,
    RpcSection,
    Section,
    StoreSection,
    TelemetrySection,
    TransportSection,
)
from rota.server.settings import Limits as RpcLimits
from rota.transport.settings import TransportSettings

FILE_BYTES_MAX: Final = 1024 * 1024
DOMAINS_GROUP: Final = "rota.domains"
KEYS_LISTED_MAX: Final = 8
_SHOWN_CHARACTERS_MAX: Final = 80
_CREDENTIALS: Final = re.compile("//[^/]*@")
_TRIGGER_KEYS: Final = tuple(field.name for field in fields(TriggerSettings))
_TRIGGER_VARIABLE: Final = re.compile(f"ROTA_TRIGGERS_([A-Z][A-Z0-9_]*)_({'|'.join(_TRIGGER_KEYS).upper()})")
_KEYS: Final = {key.path: key for section in SECTIONS for key in section.keys}
# For required keys in a configuration with errors, which no node uses.
_STAND_INS: Final[Mapping[str, RawValue]] = {
    "node.name": "unnamed",
    "ledger.url": "http://127.0.0.1:1",
    "ledger.chain_id": 1,
}
_LINE: Final = re.compile(r"\(at line (\d+), column \d+\)")

Borrowed = TypeVar("Borrowed", Config, TransportSettings, ClientLimits, FollowerLimits, RpcLimits)


def read_configuration(
    file: Path,
    environment: Mapping[str, str] | None = None,
    domains: Collection[str] | None = None,
    may_lack: Collection[str] = (),
) -> NodeConfiguration:
    """Return the configuration of a file and the environment. Raises `ConfigurationRejected` with all errors.

    `domains` may have settings; by default those that are installed. Keys of `may_lack` may be absent, although a node
    needs them.
    """
    return read_text(file, _read_file(file), os.environ if environment is None else environment, domains, may_lack)


def read_text(
    file: Path,
    text: str,
    environment: Mapping[str, str],
    domains: Collection[str] | None = None,
    may_lack: Collection[str] = (),
) -> NodeConfiguration:
    """Do the same for the text of a file that need not exist yet."""
    installed = entry_points(group=DOMAINS_GROUP).names if domains is None else domains
    reader = _Reader(file, text, environment)
    reader.read(sorted(installed))
    return reader.configuration(may_lack)


@dataclass(frozen=True, slots=True)
class Salvaged:
    """The readable part of a configuration, and all its errors.

    A setting with an error has its default here, or a stand-in; no node may run with it. `configuration` is None if the
    file cannot be read or is no TOML.
    """

    configuration: NodeConfiguration | None
    flaws: tuple[Flaw, ...] = ()


def salvage(file: Path) -> Salvaged:
    """Return the configuration of a file that may have errors: for `rota doctor`, not for a node."""
    try:
        reader = _Reader(file, _read_file(file), os.environ)
    except ConfigurationRejected as rejected:
        return Salvaged(None, rejected.flaws)
    reader.read(sorted(entry_points(group=DOMAINS_GROUP).names))
    return reader.salvaged()


def _read_file(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            content = opened.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        raise _rejected(file, "there is no such file; `rota init` makes a folder with one") from None
    except OSError as error:
        raise _rejected(file, f"cannot be read: {error.strerror}") from None
    if len(content) > FILE_BYTES_MAX:
        raise _rejected(file, f"must have at most {FILE_BYTES_MAX} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _rejected(file, "must be UTF-8, and is not from here on", line) from None


def _rejected(file: Path, text: str, line: int = 0) -> ConfigurationRejected:
    return ConfigurationRejected((Flaw(Place(str(file), line), "", text),))


def _parsed(file: Path, text: str) -> tuple[dict[str, Any], Mapping[KeyPath, int]]:
    try:
        return tomllib.loads(text), lines_of(text)
    except tomllib.TOMLDecodeError as error:
        found = _LINE.search(str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        what = _LINE.sub("", str(error)).strip()
        raise _rejected(file, f"is not TOML: {what}", line) from None
    except RecursionError:
        raise _rejected(file, "is not for us: something in it is nested too deeply") from None


class _Lent(NamedTuple):
    """The timers and limits of other packages."""

    sequencer: Config
    following: FollowerLimits
    client: ClientLimits
    transport: TransportSettings
    rpc: RpcLimits


class _Reader:
    """Reads one document and collects its errors in `flaws`."""

    def __init__(self, file: Path, text: str, environment: Mapping[str, str]) -> None:
        self.flaws: Final[list[Flaw]] = []
        self._file: Final = file
        self._folder: Final = file.parent.absolute()
        self._document, self._lines = _parsed(file, text)
        self._environment: Final = environment
        self._values: Final[dict[str, Any]] = {}
        self._domains: Mapping[str, Mapping[str, object]] = {}
        self._triggers: Mapping[str, Mapping[str, object]] = {}

    # Reading.

    def read(self, installed: Collection[str]) -> None:
        """Read all sections and variables; collect values and errors."""
        self._refuse_unknown_sections()
        for section in SECTIONS:
            table = self._table(section.name)
            if section is DOMAINS:
                self._read_domains(table, installed)
                continue
            if section is TRIGGERS:
                self._read_triggers(table)
                continue
            self._refuse_unknown_keys(section, table)
            for key in section.keys:
                self._read_key(key, table)
        self._refuse_unknown_variables()

    def _refuse_unknown_sections(self) -> None:
        names = [section.name for section in SECTIONS]
        for name, content in self._document.items():
            if name in names:
                continue
            what = "section" if isinstance(content, dict) else "key outside of all sections"
            self._add(
                (name,), name, f"is not known as a {what}; {_nearest(name, names) or f'there are {_list(names)}'}"
            )

    def _table(self, name: str) -> dict[str, Any]:
        content = self._document.get(name, {})
        if isinstance(content, dict):
            return content
        self._add((name,), name, f"must be a section, [{name}], not {_shown(content)}")
        return {}

    def _refuse_unknown_keys(self, section: Section, table: Mapping[str, object]) -> None:
        names = [key.name for key in section.keys]
        for name in table:
            if name not in names:
                self._add((section.name, name), f"{section.name}.{name}", f"is not known; {_hint(section, name)}")

    def _read_key(self, key: Key, table: Mapping[str, RawValue]) -> None:
        if key.is_environment_only and key.name in table:
            text = f"must not stand in a file: use {key.path}_file, or the variable {key.variable}"
            self._add((key.section, key.name), key.path, text)
            return
        if key.variable in self._environment:
            raw: RawValue = key.kind.from_text(self._environment[key.variable])
        else:
            raw = table.get(key.name, key.default)
        if raw is REQUIRED:
            self._add((key.section,), key.path, f"is missing; it must be {key.kind.right}")
        elif raw is NOTHING:
            self._values[key.path] = None
        else:
            self._read_value(key, raw)

    def _read_value(self, key: Key, raw: RawValue) -> None:
        try:
            self._values[key.path] = key.kind.read(raw, self._folder)
        except ValueError as error:
            found = f", not {_shown(raw)}" if key.kind.is_shown else "; what is there is not shown"
            self._add_at(key.path, f"must be {error}{found}")

    def _read_domains(self, table: Mapping[str, object], installed: Collection[str]) -> None:
        for name, content in table.items():
            where = f"{DOMAINS.name}.{name}"
            if name not in installed:
                hint = _nearest(name, installed) or (f"there are {_list(installed)}" if installed else "there is none")
                self._add((DOMAINS.name, name), where, f"no such domain is installed; {hint}")
            elif not isinstance(content, dict):
                self._add((DOMAINS.name, name), where, f"must be a table, [{where}], not {_shown(content)}")
        self._domains = MappingProxyType(
            {name: MappingProxyType(content) for name, content in table.items() if isinstance(content, dict)}
        )

    def _read_triggers(self, table: Mapping[str, object]) -> None:
        """Read the table of each trigger, with its variables, such as ROTA_TRIGGERS_ADVANCE_EPOCHS_STRATEGY."""
        tables: dict[str, dict[str, object]] = {}
        for name, content in table.items():
            if isinstance(content, dict):
                tables[name] = dict(content)
            else:
                where = f"{TRIGGERS.name}.{name}"
                self._add((TRIGGERS.name, name), where, f"must be a table, [{where}], not {_shown(content)}")
        for variable, text in self._environment.items():
            if found := _TRIGGER_VARIABLE.fullmatch(variable):
                raw: object = int(text) if re.fullmatch("[0-9]{1,18}", text) else text
                tables.setdefault(found[1].lower().replace("_", "-"), {})[found[2].lower()] = raw
        self._triggers = MappingProxyType({name: MappingProxyType(content) for name, content in tables.items()})

    def _refuse_unknown_variables(self) -> None:
        """Reject unknown variables that begin with the name of a section; other programs' variables have none."""
        known = [key.variable for section in SECTIONS for key in section.keys]
        heads = tuple(f"ROTA_{section.name}_".upper() for section in SECTIONS)
        for variable in self._environment:
            if variable.startswith(heads[SECTIONS.index(DOMAINS)]):
                text = "cannot be set here; domains are set in the file"
            elif _TRIGGER_VARIABLE.fullmatch(variable):
                continue
            elif variable.startswith(heads[SECTIONS.index(TRIGGERS)]):
                text = f"is not known; of a trigger there can be set {_list(_TRIGGER_KEYS)}"
            elif variable.startswith(heads) and variable not in known:
                text = f"is not known; {_nearest(variable, known) or 'the reference lists what can be set'}"
            else:
                continue
            self.flaws.append(Flaw(Place(variable, is_variable=True), "", text))

    # Composing.

    def configuration(self, may_lack: Collection[str]) -> NodeConfiguration:
        """Return the configuration. Raises `ConfigurationRejected` if it has errors."""
        self._add_contradictions()
        lent = self._lent()
        lacking = {path for path in may_lack if self._values.get(path, path) is None}
        flaws = [flaw for flaw in self.flaws if flaw.key not in lacking]
        if flaws:
            raise ConfigurationRejected(flaws)
        return self._composed(lent)

    def salvaged(self) -> Salvaged:
        """Return the configuration with defaults or stand-ins in place of errors."""
        self._add_contradictions()
        for path, key in _KEYS.items():
            if path not in self._values:
                raw = _STAND_INS[path] if key.default is REQUIRED else key.default
                self._values[path] = None if raw is NOTHING else key.kind.read(raw, self._folder)
        composed = self._composed(self._lent())
        return Salvaged(composed, ConfigurationRejected(self.flaws).flaws)

    def _add_contradictions(self) -> None:
        for path, text in contradictions_of(self._values):
            self._add_at(path, text)

    def _lent(self) -> _Lent:
        return _Lent(
            sequencer=self._borrowed(Config, ("sequencer", "ledger")),
            following=self._borrowed(FollowerLimits, ("ledger",)),
            client=self._borrowed(ClientLimits, ("ledger",)),
            transport=self._borrowed(TransportSettings, ("transport", "sequencer")),
            rpc=self._borrowed(RpcLimits, ("rpc",)),
        )

    def _composed(self, lent: _Lent) -> NodeConfiguration:
        ledger, transport = self._section("ledger", LedgerSection), self._section("transport", TransportSection)
        return NodeConfiguration(
            node=NodeSection(**self._section("node")),
            ledger=LedgerSection(**ledger, following=lent.following, client=lent.client),
            store=StoreSection(**self._section("store")),
            transport=TransportSection(**transport, settings=lent.transport),
            rpc=RpcSection(**self._section("rpc", RpcSection), limits=lent.rpc),
            operations=OperationsSection(**self._section("operations")),
            commands=CommandsSection(**self._section("commands")),
            sequencer=lent.sequencer,
            contracts=ContractsSection(**self._section("contracts")),
            consent=ConsentSection(**self._section("consent")),
            log=LogSection(**self._section("log")),
            telemetry=TelemetrySection(**self._section("telemetry")),
            automation=AutomationSection(**self._section("automation")),
            proving=ProvingSection(**self._section("proving")),
            triggers=self._triggers,
            domains=self._domains,
        )

    def _section(self, name: str, kind: type | None = None) -> dict[str, Any]:
        """Return the values of a section; with `kind`, only those of its own keys."""
        own = None if kind is None else {field.name for field in fields(kind)}
        values = {path.partition(".")[2]: value for path, value in self._values.items() if path.startswith(f"{name}.")}
        return {key: value for key, value in values.items() if own is None or key in own}

    def _borrowed(self, kind: type[Borrowed], sections: tuple[str, ...]) -> Borrowed:
        """Return the settings of another package. An error that the package raises is reported at the key."""
        places = {field.name: [f"{section}.{field.name}" for section in sections] for field in fields(kind)}
        paths = {name: path for name, found in places.items() for path in found if path in _KEYS}
        if not self._values.keys() >= set(paths.values()):
            return kind()  # One of them has an error, which is reported already.
        try:
            # The package, or the start of the node, decides about keys without a value.
            return kind(**{name: self._values[path] for name, path in paths.items() if self._values[path] is not None})
        except ValueError as error:
            name, _, text = str(error).partition(": ")
            self._add_at(paths[name], text)
            return kind()

    # Places.

    def _add(self, where: KeyPath, key: str, text: str) -> None:
        self.flaws.append(Flaw(Place(str(self._file), self._lines.get(where, 0)), key, text))

    def _add_at(self, path: str, text: str) -> None:
        """Add an error of a key, at its variable, its line, or its section's line if the key is absent."""
        section, _, name = path.partition(".")
        variable = f"ROTA_{section}_{name}".upper()
        if variable in self._environment:
            self.flaws.append(Flaw(Place(variable, is_variable=True), path, text))
            return
        where: KeyPath = (section, name)
        self._add(where if where in self._lines else (section,), path, text)


def _hint(section: Section, name: str) -> str:
    names = [key.name for key in section.keys]
    if nearest := _nearest(name, names):
        return nearest
    elsewhere = [other.name for other in SECTIONS if any(key.name == name for key in other.keys)]
    if elsewhere:
        return f"it belongs to [{elsewhere[0]}]"
    return f"there are {_list(names)}" if len(names) <= KEYS_LISTED_MAX else f"no key of [{section.name}] is like it"


def _nearest(name: str, names: Collection[str]) -> str:
    by_lower_case = {each.lower(): each for each in names}
    found = get_close_matches(name.lower(), by_lower_case, n=1)
    return f"did you mean {by_lower_case[found[0]]}?" if found else ""


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)


def _shown(raw: RawValue) -> str:
    """Return a value for an error, shortened and without the credentials of a URL."""
    raw = _CREDENTIALS.sub("//...@", raw) if isinstance(raw, str) else raw
    shown = f'"{raw}"' if isinstance(raw, str) else str(raw).lower() if isinstance(raw, bool) else repr(raw)
    return shown if len(shown) <= _SHOWN_CHARACTERS_MAX else shown[: _SHOWN_CHARACTERS_MAX - 3] + "..."
