"""Admission: what a coordinator checks of a transition before it joins a round (protocol §7).

Theory of operation. A false transition would be refused by every endorser, and the round that it is in would be
dissolved. So the coordinator checks itself what needs no one else: that the leaf is the transition's, that states are
called after it, and that the bytes which it sees have their commitments. A sender that brings anything else is on
probation.

The party's signature needs the party's verifier and is verified by an effect, for senders that have not proven
themselves (`signers.py`). Endorsers verify every signature.

That the inputs exist is not looked up. Only a store knows of all states, and a look for each input of each transition
would cost every honest sender as much as an assembly, though it would not suffice: a state that exists may have a
content that no endorser has. Endorsers say which states they lack, and who named one that too many of them do not find
goes apart (`rounds.py`). So a sender holds a shared round up once, for a little more than `request_timeout`, and is
then on probation.
"""

from __future__ import annotations

from rota.model.consistency import consistent
from rota.model.types import Transition


def is_admissible(separator: bytes, transition: Transition) -> bool:
    """It is what its leaf says. Whose its id is was checked when the intent was delegated."""
    return consistent(separator, transition) is not None
