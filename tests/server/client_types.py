"""The answers that clients know, by the types of their methods: what fields they may have, and which ones they have."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

API: Final = json.loads((Path(__file__).parent / "clients" / "api.json").read_text())
METHODS: Final[dict[str, str]] = API["methods"]
UNPUBLISHED: Final[dict[str, str]] = API["unpublished_methods"]
TYPES: Final[dict[str, dict[str, str]]] = API["types"]

_RETURNS: Final = re.compile(r".*-> \((?:\w+): ([A-Za-z0-9]+)(\[\])?\)")

# Fields of our own: the leaf of a private transition on the chain, its dependencies, the position that reads can wait
# for, the nodes that have not acknowledged its states, and the terms of sequencing of a group.
_RECEIPT: Final = {"leaf", "position", "unacknowledged"}
BESIDE: Final = {
    "PrivacyGroup": {"sequencing"},
    "Transaction": {"dependsOn"},
    "TransactionReceipt": _RECEIPT,
    "TransactionReceiptFull": _RECEIPT,
    "TransactionReceiptData": _RECEIPT,
}


class Seen:
    """The fields that answers of each type have had."""

    def __init__(self) -> None:
        self.fields: Final[defaultdict[str, set[str]]] = defaultdict(set)
        self.strange: set[str] = set()

    def take(self, method: str, answer: Any) -> None:  # noqa: ANN401  # JSON
        """An answer of a method: what it has, and what clients do not know."""
        match = _RETURNS.fullmatch(METHODS.get(method, ""))
        if match is None or match[1] not in TYPES or answer is None:
            return
        for each in answer if match[2] else [answer]:
            self._take_value(method, match[1], each)

    def _take_value(self, where: str, type_name: str, value: Any) -> None:  # noqa: ANN401
        assert isinstance(value, dict), f"{where} must be {type_name}: {value}"
        known = TYPES[type_name]
        self.strange |= {f"{type_name}.{name}" for name in set(value) - set(known) - BESIDE.get(type_name, set())}
        self.fields[type_name] |= set(value) & set(known)
        for name, inner in value.items():
            kind = known.get(name, "").removesuffix("[]")
            if kind in TYPES and kind != "Entry":
                for each in inner if isinstance(inner, list) else [inner]:
                    self._take_value(f"{where}.{name}", kind, each)
