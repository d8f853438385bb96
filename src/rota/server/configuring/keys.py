"""One key of a configuration: name, kind of value, default, unit and description.

A section is a frozen dataclass whose fields are made with `key`. The reader, the file that `rota init` writes and the
reference page all use this declaration.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any, Final

from rota.server.configuring.kinds import Kind, RawValue

_METADATA: Final = "rota"


class Absent(Enum):
    """In the place of a default: the key is required, or may be absent."""

    REQUIRED = "required"
    NOTHING = "nothing"


REQUIRED: Final = Absent.REQUIRED
NOTHING: Final = Absent.NOTHING


@dataclass(frozen=True, slots=True)
class Key:
    """A setting. The default is a raw value, as in a file, or `Absent`."""

    section: str
    name: str
    kind: Kind
    default: RawValue | Absent
    text: str
    unit: str = ""
    is_environment_only: bool = False

    @property
    def path(self) -> str:
        """The name in errors: `section.key`."""
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        """The environment variable, which takes precedence over the file."""
        return f"ROTA_{self.section}_{self.name}".upper()


def key(kind: Kind, default: RawValue | Absent, text: str, unit: str = "", *, is_environment_only: bool = False) -> Any:  # noqa: ANN401  # A dataclass takes any type for its field.
    """Return the dataclass field of a section for this key."""
    metadata = {_METADATA: Key("", "", kind, default, text, unit, is_environment_only)}
    if default is REQUIRED:
        return field(metadata=metadata)
    value = None if default is NOTHING else kind.read(default, Path())
    return field(default=value, metadata=metadata)


def keys_of(section: str, kind: type) -> tuple[Key, ...]:
    """Return the keys of a section's dataclass, in its order, without the fields that are no keys."""
    return tuple(
        replace(each.metadata[_METADATA], section=section, name=each.name)
        for each in fields(kind)
        if _METADATA in each.metadata
    )
