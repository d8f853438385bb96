"""Values of JSON in parameters and results of methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
AbiEntry: TypeAlias = Mapping[str, JsonValue]
