"""The address of a deployment's contract.

A deployment is a creation like any other: its address is the hash of its sender and the sender's nonce. Senders have no
accounts in a group, so that members' transactions do not block each other; the nonce is derived from the intent,
which is used once. So every node that has the intent knows the address beforehand.
"""

from __future__ import annotations

from rota.domains.pente.evm import Address
from rota.model.digests import keccak
from rota.model.types import IntentId


def deployment_nonce(separator: bytes, intent: IntentId) -> int:
    """The sender's nonce, below 2^63, for a deployment by this intent, given the domain separator of its contract."""
    return int.from_bytes(keccak(separator + intent)[:8], "big") >> 1


def deployment_address(separator: bytes, intent: IntentId, sender: Address) -> Address:
    """The address that an intent of this sender deploys at: the last 20 bytes of keccak(rlp([sender, nonce]))."""
    nonce = deployment_nonce(separator, intent)
    written = nonce.to_bytes((nonce.bit_length() + 7) // 8, "big")
    item = written if len(written) == 1 and written < b"\x80" else bytes([0x80 + len(written)]) + written
    payload = bytes([0x80 + len(sender)]) + sender + item
    return keccak(bytes([0xC0 + len(payload)]) + payload)[12:]
