"""The JSON-RPC errors of the chain.

Clients match on the texts of Geth, so these are Geth's where Geth has one.
"""

from __future__ import annotations

from typing import Final

PARSE_ERROR: Final = -32_700
INVALID_REQUEST: Final = -32_600
METHOD_NOT_FOUND: Final = -32_601
INVALID_PARAMETERS: Final = -32_602
REJECTED: Final = -32_000
LIMIT_EXCEEDED: Final = -32_005
EXECUTION_REVERTED: Final = 3

_ERROR_SELECTOR: Final = bytes.fromhex("08c379a0")  # Error(string)
_PANIC_SELECTOR: Final = bytes.fromhex("4e487b71")  # Panic(uint256)
_WORD: Final = 32
_PANICS: Final = {
    0x00: "generic panic",
    0x01: "assert(false)",
    0x11: "arithmetic underflow or overflow",
    0x12: "division or modulo by zero",
    0x21: "enum overflow",
    0x22: "invalid encoded storage byte array accessed",
    0x31: "out-of-bounds array access; popping on an empty array",
    0x32: "out-of-bounds access of an array or bytesN",
    0x41: "out of memory",
    0x51: "uninitialized function",
}


class RpcError(Exception):
    """The caller's error, with its code; `data` is for the calling program."""

    def __init__(self, code: int, message: str, data: str | None = None) -> None:
        super().__init__(message)
        self.code: Final = code
        self.message: Final = message
        self.data: Final = data


def rejected(message: str) -> RpcError:
    """Return the error for a well-formed request that is not acceptable."""
    return RpcError(REJECTED, message)


def execution_failed(reason: str, output: bytes, reverted: bool) -> RpcError:
    """Return the error of a call that the contract reverted, or that broke a rule of the EVM."""
    if reverted:
        said = revert_reason(output)
        message = f"execution reverted: {said}" if said else "execution reverted"
        return RpcError(EXECUTION_REVERTED, message, "0x" + output.hex())
    if reason.startswith("OutOfGas"):
        return rejected("out of gas")
    return rejected(f"execution failed: {reason}")


def revert_reason(output: bytes) -> str | None:
    """Decode the reason of `Error(string)` or `Panic(uint256)`; None for anything else."""
    selector, body = output[:4], output[4:]
    if selector == _PANIC_SELECTOR and len(body) == _WORD:
        code = int.from_bytes(body, "big")
        return f"{_PANICS.get(code, 'unknown panic code')} ({code:#04x})"
    if selector != _ERROR_SELECTOR or int.from_bytes(body[:_WORD], "big") != _WORD:
        return None
    length = int.from_bytes(body[_WORD : 2 * _WORD], "big")
    text = body[2 * _WORD : 2 * _WORD + length]
    if len(text) != length:
        return None
    return text.decode("utf-8", "replace")
