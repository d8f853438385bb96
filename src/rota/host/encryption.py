"""The bytes of states on their way between nodes, where a domain has them encrypted to who may read them.

    form (1) | bytes of the reader's name (1) | the reader's name | what the domain made of the content

The reader is named, because a node has any number of parties, and each has a key of its own. Nothing else of the state
can be read on the way but what is beside the content: of which leaf it is, its hash, and to which nodes it goes.

A state for whose reader at a node there is no key has no content there: it is withheld rather than shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from rota.domains.available import readable
from rota.domains.base import PARTY_BYTES_MAX, Recipient, Rejected
from rota.host.contracts import Hosted, bounded, told_of
from rota.model.types import NodeName, Party, State, node_of

# What encryption may add to a content, with the longest of names.
OVERHEAD_BYTES_MAX: Final = 1_024

_FORM: Final = 1
_HEAD_BYTES: Final = 2


def encrypted_for(hosted: Hosted, state: State, peer: NodeName, entropy: bytes) -> State:
    """A state as it leaves for a peer. `Rejected` when it has bytes and nobody there whom they can be encrypted to."""
    content = readable(hosted.known, state)
    reader = next((each for each in content.readers if node_of(each) == peer), None) if content is not None else None
    if content is None or reader is None or state.content is None:
        raise Rejected("state", f"must have a reader at {peer}")
    name = reader.encode()
    if len(name) > PARTY_BYTES_MAX:
        raise Rejected("state", f"must have a reader with a name of at most {PARTY_BYTES_MAX} bytes")
    recipient = Recipient(reader, hosted.contract.address, state.id)
    try:
        encrypted = hosted.domain.encrypt(state.content, content.record, recipient, entropy)
    except Rejected:
        raise
    except Exception as error:
        raise Rejected("state", bounded(f"the domain failed: {told_of(error)}")) from None
    return replace(state, content=bytes([_FORM, len(name)]) + name + encrypted, unknown=b"")


def decrypted(hosted: Hosted, state: State, secret_of: Callable[[Party], bytes]) -> State:
    """A state as it was before it left for us. `Rejected` when it cannot be told; whether it is true is not looked at.

    `secret_of` gives the secret of a party of this node; what it raises for others is the caller's.
    """
    content = state.content
    assert content is not None, "a state without bytes says nothing"
    if len(content) < _HEAD_BYTES or content[0] != _FORM:
        raise Rejected("state", f"must be encrypted, in form {_FORM}")
    name_end = _HEAD_BYTES + content[1]
    try:
        reader = Party(content[_HEAD_BYTES:name_end].decode())
    except UnicodeDecodeError:
        raise Rejected("state", "must name the party that it is encrypted to") from None
    recipient = Recipient(reader, hosted.contract.address, state.id)
    secret = secret_of(reader)
    try:
        plain = hosted.domain.decrypt(content[name_end:], recipient, secret)
    except Rejected:
        raise
    except Exception as error:
        # A peer sends any bytes.
        raise Rejected("state", bounded(f"the domain failed: {told_of(error)}")) from None
    return replace(state, content=plain)
