"""Transactions of an Ethereum chain: their signed form, their sent form, and their sender.

Three kinds are in use. *Legacy* ones name one gas price; since EIP-155 their signature binds the chain too, before it
did not. *Access list* ones (EIP-2930, type 1) add the places that they will touch. *Dynamic fee* ones (EIP-1559, type
2) name the most that they pay for gas and the most of it that goes to the block's maker.

    legacy        rlp(nonce, price, gas, to, value, data, v, r, s)      v = 35 + 2 * chain + parity, or 27 + parity
    access list   01 rlp(chain, nonce, price, gas, to, value, data, access list, parity, r, s)
    dynamic fee   02 rlp(chain, nonce, tip, fee, gas, to, value, data, access list, parity, r, s)

The sender signs the hash of the same without the last three fields (EIP-155: with chain, 0, 0 in their place). The hash
of the sent form is the transaction's id. Transactions of others are decoded strictly: `ValueError` names the wrong
field.

This module has no elliptic curve: signatures come as bytes from the holder of the key, and the caller passes the
function that recovers the signer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from rota.ledger import rlp
from rota.model.digests import WORD_BYTES, keccak

ADDRESS_BYTES: Final = 20
SIGNATURE_BYTES: Final = 65
RAW_BYTES_MAX: Final = 128 * 1024  # what Geth's pool takes; a round is at most 120 KiB
NONCE_BITS: Final = 64  # EIP-2681
GAS_BITS: Final = 64
CHAIN_ID_BITS: Final = 64

ACCESS_LIST_TYPE: Final = 1
DYNAMIC_FEE_TYPE: Final = 2

_DEPTH_MAX: Final = 4  # the transaction, its access list, an entry of that, the entry's keys
_LEGACY_HEAD_MIN: Final = 0xC0
_UNPROTECTED_V: Final = 27
_PROTECTED_V: Final = 35

Recover: TypeAlias = Callable[[bytes, bytes], bytes]
"""(hash, 65-byte signature) to the 20-byte address that signed; `ValueError` when the signature is no good."""


@dataclass(frozen=True, slots=True)
class AccessEntry:
    """An account, and slots of it, that a transaction declares it will touch."""

    address: bytes
    slots: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyTransaction:
    """A transaction of the first kind; without a chain id its signature is valid on every chain."""

    nonce: int
    gas_price: int
    gas_limit: int
    to: bytes | None
    value: int = 0
    data: bytes = b""
    chain_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessListTransaction:
    """A transaction of type 1 (EIP-2930)."""

    chain_id: int
    nonce: int
    gas_price: int
    gas_limit: int
    to: bytes | None
    value: int = 0
    data: bytes = b""
    access_list: tuple[AccessEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicFeeTransaction:
    """A transaction of type 2 (EIP-1559)."""

    chain_id: int
    nonce: int
    max_priority_fee_per_gas: int
    max_fee_per_gas: int
    gas_limit: int
    to: bytes | None
    value: int = 0
    data: bytes = b""
    access_list: tuple[AccessEntry, ...] = ()


Transaction: TypeAlias = LegacyTransaction | AccessListTransaction | DynamicFeeTransaction


@dataclass(frozen=True, slots=True)
class SignedTransaction:
    """A transaction with its signature; `raw` is the sent form and `hash` its id."""

    transaction: Transaction
    parity: int
    r: int
    s: int
    raw: bytes
    hash: bytes

    @property
    def signature(self) -> bytes:
        """The 65 bytes from which the sender is recovered."""
        return self.r.to_bytes(32, "big") + self.s.to_bytes(32, "big") + bytes([self.parity])

    def sender(self, recover: Recover) -> bytes:
        """Return the address that signed; `ValueError` when the signature is invalid."""
        return recover(signing_hash(self.transaction), self.signature)


def signing_hash(transaction: Transaction) -> bytes:
    """Return the hash that the sender signs."""
    fields = _fields(transaction)
    if isinstance(transaction, LegacyTransaction):
        if transaction.chain_id is not None:
            fields += [rlp.encode_unsigned(transaction.chain_id), b"", b""]
        return keccak(rlp.encode(fields))
    return keccak(bytes([type_of(transaction)]) + rlp.encode(fields))


def with_signature(transaction: Transaction, signature: bytes) -> SignedTransaction:
    """Return the transaction in its sent form, with the 65-byte signature of its signing hash."""
    assert len(signature) == SIGNATURE_BYTES, f"a signature is {SIGNATURE_BYTES} bytes, not {len(signature)}"
    r, s, parity = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:64], "big"), signature[64]
    assert parity in (0, 1), f"a signature ends in its parity, 0 or 1, not {parity}"
    raw = _encode(transaction, parity, r, s)
    return SignedTransaction(transaction, parity, r, s, raw, keccak(raw))


def type_of(transaction: Transaction) -> int:
    """Return the type of EIP-2718; 0 for legacy ones, which do not encode it."""
    match transaction:
        case LegacyTransaction():
            return 0
        case AccessListTransaction():
            return ACCESS_LIST_TYPE
        case DynamicFeeTransaction():
            return DYNAMIC_FEE_TYPE


def decode(raw: bytes) -> SignedTransaction:
    """Decode a transaction; a `ValueError` names the wrong field."""
    if not raw:
        raise ValueError("a transaction is not empty")
    if len(raw) > RAW_BYTES_MAX:
        raise ValueError(f"a transaction has at most {RAW_BYTES_MAX} bytes, not {len(raw)}")
    if raw[0] >= _LEGACY_HEAD_MIN:
        return _decode_legacy(raw)
    if raw[0] == ACCESS_LIST_TYPE:
        return _decode_access_list(raw)
    if raw[0] == DYNAMIC_FEE_TYPE:
        return _decode_dynamic_fee(raw)
    raise ValueError(f"transaction type {raw[0]} is not supported; legacy ones, 1 and 2 are")


def created_address(sender: bytes, nonce: int) -> bytes:
    """Return the address of the contract that `sender` creates with the transaction of this nonce."""
    return keccak(rlp.encode([sender, rlp.encode_unsigned(nonce)]))[-ADDRESS_BYTES:]


def _fields(transaction: Transaction) -> list[rlp.Item]:
    """Return the signed fields, without those that EIP-155 adds."""
    number = rlp.encode_unsigned
    prices: tuple[int, ...]
    rest: list[rlp.Item] = [
        number(transaction.gas_limit),
        transaction.to or b"",
        number(transaction.value),
        transaction.data,
    ]
    match transaction:
        case LegacyTransaction():
            return [number(transaction.nonce), number(transaction.gas_price), *rest]
        case AccessListTransaction():
            prices = (transaction.gas_price,)
        case DynamicFeeTransaction():
            prices = (transaction.max_priority_fee_per_gas, transaction.max_fee_per_gas)
        case _:
            assert_never(transaction)
    access: list[rlp.Item] = [(entry.address, entry.slots) for entry in transaction.access_list]
    first = [number(each) for each in (transaction.chain_id, transaction.nonce, *prices)]
    return [*first, *rest, access]


def _encode(transaction: Transaction, parity: int, r: int, s: int) -> bytes:
    fields = _fields(transaction)
    if isinstance(transaction, LegacyTransaction):
        first = _UNPROTECTED_V if transaction.chain_id is None else _PROTECTED_V + 2 * transaction.chain_id
        return rlp.encode([*fields, *(rlp.encode_unsigned(number) for number in (first + parity, r, s))])
    signed: list[rlp.Item] = [*fields, *(rlp.encode_unsigned(number) for number in (parity, r, s))]
    return bytes([type_of(transaction)]) + rlp.encode(signed)


def _decode_legacy(raw: bytes) -> SignedTransaction:
    nonce, price, gas, to, value, data, v, r, s = _items(raw, 9)
    v_number = rlp.decode_unsigned(v, "v", CHAIN_ID_BITS + 8)
    if v_number in (_UNPROTECTED_V, _UNPROTECTED_V + 1):
        chain_id, parity = None, v_number - _UNPROTECTED_V
    elif v_number >= _PROTECTED_V:
        chain_id, parity = divmod(v_number - _PROTECTED_V, 2)
    else:
        raise ValueError(f"v is 27, 28 or at least {_PROTECTED_V}, not {v_number}")
    transaction = LegacyTransaction(
        nonce=_nonce(nonce),
        gas_price=rlp.decode_unsigned(price, "gasPrice"),
        gas_limit=rlp.decode_unsigned(gas, "gas", GAS_BITS),
        to=_recipient(to),
        value=rlp.decode_unsigned(value, "value"),
        data=_string(data, "data"),
        chain_id=chain_id,
    )
    return _signed(transaction, parity, r, s, raw)


def _decode_access_list(raw: bytes) -> SignedTransaction:
    chain, nonce, price, gas, to, value, data, access, parity, r, s = _items(raw[1:], 11)
    transaction = AccessListTransaction(
        chain_id=rlp.decode_unsigned(chain, "chainId", CHAIN_ID_BITS),
        nonce=_nonce(nonce),
        gas_price=rlp.decode_unsigned(price, "gasPrice"),
        gas_limit=rlp.decode_unsigned(gas, "gas", GAS_BITS),
        to=_recipient(to),
        value=rlp.decode_unsigned(value, "value"),
        data=_string(data, "data"),
        access_list=_access_list(access),
    )
    return _signed(transaction, _parity(parity), r, s, raw)


def _decode_dynamic_fee(raw: bytes) -> SignedTransaction:
    chain, nonce, tip, fee, gas, to, value, data, access, parity, r, s = _items(raw[1:], 12)
    transaction = DynamicFeeTransaction(
        chain_id=rlp.decode_unsigned(chain, "chainId", CHAIN_ID_BITS),
        nonce=_nonce(nonce),
        max_priority_fee_per_gas=rlp.decode_unsigned(tip, "maxPriorityFeePerGas"),
        max_fee_per_gas=rlp.decode_unsigned(fee, "maxFeePerGas"),
        gas_limit=rlp.decode_unsigned(gas, "gas", GAS_BITS),
        to=_recipient(to),
        value=rlp.decode_unsigned(value, "value"),
        data=_string(data, "data"),
        access_list=_access_list(access),
    )
    return _signed(transaction, _parity(parity), r, s, raw)


def _signed(transaction: Transaction, parity: int, r: rlp.Decoded, s: rlp.Decoded, raw: bytes) -> SignedTransaction:
    return SignedTransaction(
        transaction, parity, rlp.decode_unsigned(r, "r"), rlp.decode_unsigned(s, "s"), raw, keccak(raw)
    )


def _items(encoded: bytes, count: int) -> tuple[rlp.Decoded, ...]:
    items = rlp.decode(encoded, depth_max=_DEPTH_MAX, size_bytes_max=RAW_BYTES_MAX)
    if not isinstance(items, tuple) or len(items) != count:
        found = f"{len(items)} fields" if isinstance(items, tuple) else "a string"
        raise ValueError(f"a transaction of this type is a list of {count} fields, not {found}")
    return items


def _nonce(item: rlp.Decoded) -> int:
    return rlp.decode_unsigned(item, "nonce", NONCE_BITS)


def _parity(item: rlp.Decoded) -> int:
    parity = rlp.decode_unsigned(item, "yParity")
    if parity > 1:
        raise ValueError(f"yParity is 0 or 1, not {parity}")
    return parity


def _recipient(item: rlp.Decoded) -> bytes | None:
    to = _string(item, "to")
    if len(to) not in (0, ADDRESS_BYTES):
        raise ValueError(f"to is empty or an address of {ADDRESS_BYTES} bytes, not {len(to)}")
    return to or None


def _string(item: rlp.Decoded, name: str) -> bytes:
    if not isinstance(item, bytes):
        raise ValueError(f"{name} is a list where bytes are expected")
    return item


def _access_list(item: rlp.Decoded) -> tuple[AccessEntry, ...]:
    if not isinstance(item, tuple):
        raise ValueError("accessList is a string where a list is expected")
    return tuple(_access_entry(entry) for entry in item)


def _access_entry(item: rlp.Decoded) -> AccessEntry:
    match item:
        case (bytes() as address, tuple() as slots) if len(address) == ADDRESS_BYTES:
            if all(isinstance(slot, bytes) and len(slot) == WORD_BYTES for slot in slots):
                return AccessEntry(address, tuple(_string(slot, "slot") for slot in slots))
    raise ValueError(f"an entry of accessList is an address and a list of slots of {WORD_BYTES} bytes")
