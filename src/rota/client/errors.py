"""What goes wrong between a client and a node, by whose fault it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

KEY_USED: Final = -32_001
INTERNAL: Final = -32_603


class ClientError(Exception):
    """A call did not end well."""


class Refused(ClientError):
    """The node does not do what was asked for; asking the same again gets the same answer.

    `field` names the parameter that is to be mended, where one is to blame. `details` is what the node says beyond
    its sentence.
    """

    def __init__(self, code: int, message: str, details: Mapping[str, object]) -> None:
        super().__init__(message)
        self.code: Final = code
        self.details: Final = dict(details)
        self.field: Final = str(details.get("field", ""))


class Unreachable(ClientError):
    """No answer, or none for now; the same may go well later. What was asked for may have been done all the same."""
