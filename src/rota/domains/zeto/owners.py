"""Owners and their coins as a domain has them: secrets, keys, records, and the coins that these are."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from rota.domains.available import Known
from rota.domains.base import Recipient, Rejected
from rota.domains.records import Record
from rota.domains.zeto.babyjubjub import SCALAR_BITS, Point, decompress, key_of
from rota.domains.zeto.coins import Coin, nullifier_of
from rota.domains.zeto.field import ORDER
from rota.domains.zeto.records import NO_ADDRESS, ZetoCoin
from rota.model.types import Party, address_bytes

KEYS_KEPT_MAX: Final = 4_096
NULLIFIERS_KEPT_MAX: Final = 65_536


def opened(record: Record, salt: bytes) -> Coin:
    """The coin that a record is; `ValueError` when it is none, as a sender may write anything."""
    if not isinstance(record, ZetoCoin):
        raise ValueError("it is no coin")
    return Coin(record.amount, salt_of(salt), point_of(record.owner_key), int(record.delegate, 16))


def salt_of(salt: bytes) -> int:
    return int.from_bytes(salt, "big") % ORDER


@lru_cache(maxsize=NULLIFIERS_KEPT_MAX)
def nullifier(value: int, salt: int, scalar: int) -> int:
    return nullifier_of(value, salt, scalar)


def shown_coin(known: Known[Record]) -> dict[str, object]:
    assert isinstance(known.record, ZetoCoin), "a coin"
    commitment = opened(known.record, known.salt).commitment
    shown: dict[str, object] = {"id": hex(commitment), "owner": known.record.owner, "amount": str(known.record.amount)}
    return shown if is_free(known.record) else shown | {"delegate": known.record.delegate}


def about(recipient: Recipient) -> bytes:
    """All parts but the last have one length, so that it can be read in one way only."""
    leaf, output = recipient.state
    return address_bytes(recipient.contract) + leaf + output.to_bytes(4, "big") + recipient.party.encode()


def scalar_of(secret: bytes) -> int:
    """The owner's scalar, or one of random bytes (decision 130)."""
    return 1 + int.from_bytes(secret, "big") % ((1 << SCALAR_BITS) - 1)


@lru_cache(maxsize=KEYS_KEPT_MAX)
def owner_key_of(scalar: int) -> Point:
    return key_of(scalar)


@lru_cache(maxsize=KEYS_KEPT_MAX)
def point_of(compressed: bytes) -> Point:
    """The key of an owner; `ValueError` when it is none."""
    point = decompress(compressed)
    if not point.is_key:
        raise ValueError("it is no key of an owner")
    return point


def key_bytes(owner: Party, key: str) -> bytes:
    try:
        compressed = bytes.fromhex(key.removeprefix("0x"))
        point_of(compressed)
    except ValueError as error:
        raise Rejected("to", f"must be a party with a key for coins, and {owner} has none: {error}") from None
    return compressed


def is_of(coin: ZetoCoin, key: str) -> bool:
    return "0x" + coin.owner_key.hex() == key


def is_free(coin: ZetoCoin) -> bool:
    return coin.delegate == NO_ADDRESS
