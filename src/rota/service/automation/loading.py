"""The triggers that a node runs: shipped ones, and those of modules that the configuration names.

`[automation]` has the settings for all of them, `[triggers.NAME]` those of one: the same settings again, and the
options that it declares. A shipped trigger that needs a contract runs when its table names one. A module is
loaded by its name; every class in it that is a `Trigger` and has its own name is run.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final

from rota.automation.settings import Strategy, TriggerSettings
from rota.automation.shipped import SHIPPED, AskForStates, CancelExpiredLocks
from rota.automation.triggers import TRIGGERS_MAX, Trigger, require_trigger

# Shipped triggers that run without a table of their own.
ALWAYS: Final = (AskForStates, CancelExpiredLocks)
SETTINGS: Final = tuple(field.name for field in fields(TriggerSettings))


class CannotLoad(Exception):
    """The configuration names triggers that cannot be run; the text states the problem and the valid choices."""


@dataclass(frozen=True, slots=True)
class LoadedTrigger:
    """A trigger with its settings."""

    trigger: Trigger
    settings: TriggerSettings
    is_paused: bool = False

    @property
    def name(self) -> str:
        """The trigger's unique name."""
        return self.trigger.name


def load_triggers(
    modules: Sequence[str], defaults: TriggerSettings, tables: Mapping[str, Mapping[str, object]], paused: Sequence[str]
) -> tuple[LoadedTrigger, ...]:
    """Return all triggers of a node. `CannotLoad` names the key that is wrong."""
    kinds = {kind.name: kind for kind in SHIPPED}
    wanted = [kind.name for kind in SHIPPED if kind in ALWAYS or kind.name in tables]
    for module in modules:
        for kind in _triggers_in(module):
            if kinds.get(kind.name, kind) is not kind:
                raise CannotLoad(f"automation.load: {module} has a trigger {kind.name}, and there is one already")
            kinds[kind.name] = kind
            wanted.append(kind.name)
    for name in tables:
        if name not in kinds:
            raise CannotLoad(f"triggers.{name}: there is no such trigger; {_hint(name, tuple(kinds))}")
    names = tuple(dict.fromkeys(wanted))
    for name in paused:
        if name not in names:
            raise CannotLoad(f"automation.paused: there is no trigger {name!r} here; {_hint(name, names)}")
    if len(names) > TRIGGERS_MAX:
        raise CannotLoad(f"automation.load: a node runs at most {TRIGGERS_MAX} triggers, not {len(names)}")
    return tuple(_loaded(kinds[name], defaults, tables.get(name, {}), name in paused) for name in names)


def _triggers_in(module: str) -> list[type[Trigger]]:
    try:
        loaded = import_module(module)
    except Exception as error:  # A module of a user may fail in any way; its own words say how.
        raise CannotLoad(f"automation.load: {module} cannot be loaded: {type(error).__name__}: {error}") from error
    found = [
        kind
        for _, kind in inspect.getmembers(loaded, inspect.isclass)
        if issubclass(kind, Trigger) and kind.__module__ == loaded.__name__ and kind.name
    ]
    if not found:
        raise CannotLoad(f"automation.load: {module} has no class that is a Trigger with a name")
    for kind in found:
        try:
            require_trigger(kind)
        except ValueError as error:
            raise CannotLoad(f"automation.load: {module}.{kind.__name__}: {error}") from error
    return found


def _loaded(
    kind: type[Trigger], defaults: TriggerSettings, table: Mapping[str, object], is_paused: bool
) -> LoadedTrigger:
    given = {name: value for name, value in table.items() if name in SETTINGS}
    options = {name: value for name, value in table.items() if name not in SETTINGS}
    try:
        settings = replace(defaults, **{name: _setting(name, value) for name, value in given.items()})
        return LoadedTrigger(kind.from_options(options), settings, is_paused)
    except ValueError as error:
        raise CannotLoad(f"triggers.{kind.name}.{error}") from error


def _setting(name: str, value: object) -> Any:  # noqa: ANN401  # Each setting has a type of its own.
    if name == "strategy":
        try:
            return Strategy(value)
        except ValueError:
            words = " or ".join(f'"{each.value}"' for each in Strategy)
            raise ValueError(f"strategy: must be {words}, not {value!r}") from None
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name}: must be a whole number of at least 1, not {value!r}")
    return value


def _hint(name: str, names: Sequence[str]) -> str:
    nearest = get_close_matches(name, names, n=1)
    return f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(names)}"
