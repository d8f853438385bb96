"""The bytes of states on their way between nodes, where a domain encrypts them to their readers.

        form (1) | bytes of the reader's name (1) | the reader's name | the content as encrypted by the domain

The reader is named, because a node has any number of parties, and each has a key of its own. The other readable parts
of the state on its way are those beside the content: its leaf, its hash, and the nodes that it goes to.

If there is no key for a state's reader at a node, that node does not get its content.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from rota.domains.available import readable
from rota.domains.base import PARTY_BYTES_MAX, Recipient, Rejected
from rota.host.contracts import Hosted, bounded, told_of
from rota.model.types import NodeName, Party, State, node_of

# The most that encryption adds to a content, with the longest name.
OVERHEAD_BYTES_MAX: Final = 1_024

_FORM: Final = 1
_HEAD_BYTES: Final = 2


def encrypted_for(hosted: Hosted, state: State, peer: NodeName, entropy: bytes) -> State:
    """A state as it is sent to a peer. `Rejected` when it has no bytes, or no reader there with a key."""
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
    """Decrypt a received state. `Rejected` when that fails; the contents are not checked here.

    `secret_of` returns the secret of a party of this node; its exceptions for others reach the caller.
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
        # A peer may send any bytes.
        raise Rejected("state", bounded(f"the domain failed: {told_of(error)}")) from None
    return replace(state, content=plain)
