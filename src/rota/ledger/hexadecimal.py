"""Numbers and bytes in the notation of Ethereum's JSON-RPC.

A *quantity* is 0x and hex digits without leading zeros, 0x0 for zero. *Data* is 0x and two digits per byte. Both are
written in lower case and read in either. Any other notation is a `ValueError` that describes the right one; the caller
adds the parameter's name.
"""

from __future__ import annotations

import re
from typing import Final

QUANTITY_DIGITS_MAX: Final = 64

_QUANTITY: Final = re.compile("0x(0|[1-9a-fA-F][0-9a-fA-F]*)")


def quantity(number: int) -> str:
    """Write a number."""
    return hex(number)


def data(content: bytes) -> str:
    """Write bytes."""
    return "0x" + content.hex()


def read_quantity(written: object) -> int:
    """Read a number."""
    if not isinstance(written, str):
        raise ValueError(f"expected a quantity such as 0x1f as a string, not {_shown(written)}")
    if not _QUANTITY.fullmatch(written):
        raise ValueError(f"expected 0x and hex digits without leading zeros, not {_shown(written)}")
    if len(written) - 2 > QUANTITY_DIGITS_MAX:
        raise ValueError(f"expected a number of at most {QUANTITY_DIGITS_MAX} digits, not {len(written) - 2}")
    return int(written, 16)


def read_data(written: object, size_bytes: int | None = None) -> bytes:
    """Read bytes; exactly `size_bytes` of them if given."""
    what = "bytes" if size_bytes is None else f"{size_bytes} bytes"
    if not isinstance(written, str):
        raise ValueError(f"expected {what} as a string of 0x and hex digits, not {_shown(written)}")
    try:
        content = bytes.fromhex(written[2:])
    except ValueError:
        content = b""
    # `fromhex` skips spaces, so that the content is shorter than the text.
    if not written.startswith("0x") or 2 * len(content) != len(written) - 2:
        raise ValueError(f"expected {what} as 0x and two hex digits each, not {_shown(written)}")
    if size_bytes is not None and len(content) != size_bytes:
        raise ValueError(f"expected {size_bytes} bytes, not {len(content)}")
    return content


def _shown(written: object) -> str:
    """Return enough of a wrong value to find it by, whatever its size."""
    shown = repr(written)
    return shown if len(shown) <= 80 else shown[:77] + "..."
