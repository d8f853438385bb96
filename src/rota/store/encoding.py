"""Values and their bytes in the database: MessagePack, a class by the names of its fields.

Names make a stored value readable by a later version: a field that was added since has its default, one that was
removed is ignored. A field that is renamed or changes its meaning needs a migration, and so does any change
of a named tuple, which is stored by the order of its items.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from rota.chain.effects import RoundDispatch
from rota.directory.effects import Proposal
from rota.machine.effects import TransitionPrepared
from rota.model.blocks import ChainBlock, FactoryDeployment, LedgerOutcome
from rota.model.types import (
    ContractAddress,
    DelegationNumber,
    Intent,
    KeptStates,
    KnownContract,
    NodeName,
    Receipt,
    State,
    Transition,
)
from rota.sequencer.sent_intent import Permission
from rota.wire.messages import PreparedTransaction


class _OldPermission(NamedTuple):
    """A permission as stored before the contents were stored with the signature."""

    number: DelegationNumber
    delegate: NodeName
    transition: Transition


_ENCODER: Final = msgspec.msgpack.Encoder()
encode: Final = _ENCODER.encode

decode_contract: Final = msgspec.msgpack.Decoder(KnownContract).decode
decode_intent: Final = msgspec.msgpack.Decoder(Intent).decode
decode_prepared: Final = msgspec.msgpack.Decoder(PreparedTransaction).decode
decode_receipt: Final = msgspec.msgpack.Decoder(Receipt).decode
decode_dispatch: Final = msgspec.msgpack.Decoder(RoundDispatch).decode
decode_transition: Final = msgspec.msgpack.Decoder(Transition).decode
decode_state: Final = msgspec.msgpack.Decoder(State).decode
decode_transition_prepared: Final = msgspec.msgpack.Decoder(TransitionPrepared).decode
decode_kept: Final = msgspec.msgpack.Decoder(KeptStates).decode
decode_block: Final = msgspec.msgpack.Decoder(ChainBlock).decode
decode_signers: Final = msgspec.msgpack.Decoder(tuple[ContractAddress, ...]).decode
decode_deployed: Final = msgspec.msgpack.Decoder(FactoryDeployment).decode
decode_proposal: Final = msgspec.msgpack.Decoder(Proposal).decode
decode_outcome: Final = msgspec.msgpack.Decoder(LedgerOutcome).decode


_decode_permission: Final = msgspec.msgpack.Decoder(Permission).decode
_decode_old_permission: Final = msgspec.msgpack.Decoder(_OldPermission).decode


def decode_permission(content: bytes) -> Permission:
    """Decode a permission, also one that an older release wrote."""
    try:
        return _decode_permission(content)
    except msgspec.ValidationError:
        number, delegate, made = _decode_old_permission(content)
        return Permission(number, delegate, made.leaf, made.valid_until_s)


def encode_text(text: str) -> bytes:
    """The text in UTF-8; half a surrogate pair, which UTF-8 lacks, becomes a question mark."""
    return text.encode("utf-8", "replace")


def decode_text(content: bytes | None) -> str | None:
    """Decode a text, if there is one."""
    return None if content is None else content.decode("utf-8")


_Ending = tuple[str, str]
_decode_ending: Final = msgspec.msgpack.Decoder(_Ending).decode
# The first byte of a pair in MessagePack. No text in UTF-8 begins with it.
_PAIR: Final = b"\x92"


def encode_ending(reason: str, code: str) -> bytes:
    """Why an intent ends: a text, and a code for programs. Without a code the text alone, as in older releases."""
    readable = encode_text(reason)
    return encode((readable.decode("utf-8"), code)) if code else readable


def decode_ending(content: bytes | None) -> tuple[str | None, str]:
    """The reason and the code of an intent that ends; None and an empty code of one that does not."""
    if content is not None and content.startswith(_PAIR):
        reason, code = _decode_ending(content)
        return reason, code
    return decode_text(content), ""
