"""A self-test of the private EVM at start.

The effects of a message are parsed from a debug string of pyrevm, whose format may change with any version. A wrong
reading would make this node endorse what the others do not, or refuse what they endorse. So a node runs a few messages
whose effects are known, and does not start if they are read differently.
"""

from __future__ import annotations

from typing import Final

from rota.domains.pente.evm import Account, Address, Change, Ending, EvmVersion, Execution, Log, Message
from rota.evm.private_evm import PrivateEvm

GAS: Final = 1_000_000
SENDER: Final = Address(b"\x51" * 20)
# Stores its argument in slot 0, reads slot 1, logs the topic 7, and answers 42.
WRITER: Final = Address(b"\xa1" * 20)
WRITER_CODE: Final = bytes.fromhex("60003560005560015450600760006000a1602a60005260206000f3")
REVERTER: Final = Address(b"\xa2" * 20)
REVERTER_CODE: Final = bytes.fromhex("602a60005260206000fd")
HALTER: Final = Address(b"\xa3" * 20)
HALTER_CODE: Final = bytes.fromhex("fe")
# Makes a contract whose code is one STOP.
CREATION: Final = bytes.fromhex("60016000f3")


class EvmDiffers(Exception):
    """The effects of the installed EVM are not those that this version of Rota can read."""


def require_known_evm() -> None:
    """`EvmDiffers` unless known messages have their known effects in every version of the EVM."""
    for version in EvmVersion:
        try:
            _check(PrivateEvm(version, chain_id=1))
        except EvmDiffers:
            raise
        except Exception as error:
            raise EvmDiffers(f"{version.value}: {type(error).__name__}: {error}") from error


def _check(evm: PrivateEvm) -> None:
    for address, code in ((WRITER, WRITER_CODE), (REVERTER, REVERTER_CODE), (HALTER, HALTER_CODE)):
        evm.put(address, Account(1, code))
    evm.change(WRITER, 1, {1: 5})
    answer = (42).to_bytes(32)
    # Twice, as each message is reverted.
    for number in (9, 11):
        done = evm.run(Message(SENDER, WRITER, number.to_bytes(32), GAS))
        _require("a call", _shown(done), (Ending.DONE, answer, {WRITER: Change(1, None, {0: number})}))
        _require("its logs", done.logs, (Log(WRITER, ((7).to_bytes(32),), b""),))
        _require("its slots", done.touched.get(WRITER), (0, 1))
    reverted = evm.run(Message(SENDER, REVERTER, b"", GAS))
    _require("a revert", _shown(reverted), (Ending.REVERTED, answer, {}))
    halted = evm.run(Message(SENDER, HALTER, b"", GAS))
    _require("a halt", (halted.ending, dict(halted.changes)), (Ending.HALTED, {}))
    made = evm.run(Message(SENDER, None, CREATION, GAS, nonce=3))
    _require("a creation", made.ending, Ending.DONE)
    _require("what it made", dict(made.changes), {made.created: Change(1, b"\x00", {})})


def _shown(execution: Execution) -> tuple[Ending, bytes, dict[Address, Change]]:
    return execution.ending, execution.output, dict(execution.changes)


def _require(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise EvmDiffers(f"{what}: {found!r} where {expected!r} is expected")
