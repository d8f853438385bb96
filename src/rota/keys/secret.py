"""A secret that does not appear by accident: not in a `repr`, a message, a log line, a pickle or a copy.

Python cannot wipe memory, so this prevents disclosure by accident, not reading of the process's memory. All code in
`keys` holds passwords, words and key bytes in this box and opens it inside the expression that needs them. A traceback
that is printed with the local variables of its frames then shows boxes.
"""

from __future__ import annotations

import hmac
from typing import Final, NoReturn


class Secret:
    """Bytes that must not be disclosed."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes | str) -> None:
        self._content: Final = _encoded(content) if isinstance(content, str) else bytes(content)

    def reveal(self) -> bytes:
        """The bytes. Pass them on directly, and store them in no variable that outlives the statement."""
        return self._content

    def is_text(self) -> bool:
        """Whether it is UTF-8; checked before it is decoded, as the error of a decoder contains its input."""
        try:
            self._content.decode()
        except UnicodeDecodeError:
            return False
        return True

    def __len__(self) -> int:
        return len(self._content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._content, other._content)

    __hash__ = None  # type: ignore[assignment]  # A hash would tell which of two secrets it is.

    def __repr__(self) -> str:
        return "Secret(not shown)"

    def __format__(self, specification: str) -> str:
        return repr(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is neither copied nor pickled")


def _encoded(text: str) -> bytes:
    """As the environment encodes text that is no UTF-8. It must not fail, because the error would contain the text."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode(errors="surrogatepass")
