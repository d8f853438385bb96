"""One-time keys: the owner of an intent's id in a contract whose transitions are proved (decision 130).

Such a contract has no endorsers that could check the owner of an id's page. So the id itself is the hash of an address,
and the contract takes a transition only with a signature by that address's key. The key is derived from the party's key
for coins, the contract and the intent's nonce, 16 random bytes that are stored with the intent. It is never stored and
can be derived again after a restart. Nothing links two ids of one party.

    derived = HKDF-SHA-256 of `coins/PARTY` to 48 bytes, no salt, info "rota zeto intent" | contract 20 | nonce 16
    secret  = 1 + derived mod (order of secp256k1, less 1)
    id      = keccak(address of secret)[:16]
"""

from __future__ import annotations

from typing import Final

from rota.keys.names import coins_key
from rota.keys.secp256k1 import COMPACT_SIGNATURE_BYTES, ORDER, SECRET_BYTES, PrivateKey, recover_address
from rota.model.digests import NONCE_BYTES, bound_hash, intent_of
from rota.model.types import ContractAddress, IntentId, Leaf, NodeName, Party, address_bytes, node_of
from rota.ports import KeyHolder, UnknownKey

_PURPOSE: Final = b"rota zeto intent"
# Longer than a key, so that the reduction leaves no bias.
_DERIVED_BYTES: Final = 48


class OneTimeKeys:
    """The one-time keys of one node's parties."""

    def __init__(self, node: NodeName, keys: KeyHolder) -> None:
        self._node: Final = node
        self._keys: Final = keys

    def id_of(self, party: Party, contract: ContractAddress, nonce: bytes) -> IntentId:
        """The intent id that belongs to this nonce. `UnknownKey` when the party is of another node."""
        return intent_of(self._key_of(party, contract, nonce).address)

    def sign(self, party: Party, contract: ContractAddress, nonce: bytes, intent: IntentId, binding: bytes) -> bytes:
        """The signature that binds a transition to its intent. `UnknownKey` when the party does not own the id."""
        key = self._key_of(party, contract, nonce)
        if intent_of(key.address) != intent:
            raise UnknownKey(f"{intent.hex()} is not an id of {party} in {contract}")
        return key.sign_compact(binding)

    def _key_of(self, party: Party, contract: ContractAddress, nonce: bytes) -> PrivateKey:
        if node_of(party) != self._node:
            raise UnknownKey(f"the party is not one of {self._node}")
        if len(nonce) != NONCE_BYTES:
            raise UnknownKey(f"the nonce of an intent is {NONCE_BYTES} bytes, not {len(nonce)}")
        derived = self._keys.derive(coins_key(party), _PURPOSE + address_bytes(contract) + nonce, _DERIVED_BYTES)
        return PrivateKey((1 + int.from_bytes(derived, "big") % (ORDER - 1)).to_bytes(SECRET_BYTES, "big"))


def is_signed_by_intent(intent: IntentId, leaf: Leaf, valid_until_s: int, signature: bytes) -> bool:
    """Whether the key of this id signed that leaf and bound. A proof may follow the signature."""
    try:
        own = signature[:COMPACT_SIGNATURE_BYTES]
        return intent_of(recover_address(bound_hash(leaf, valid_until_s), own)) == intent
    except ValueError:
        return False
