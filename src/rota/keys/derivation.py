"""A tree of keys from one seed (BIP-32) on Ethereum's curve, and paths into it (BIP-44).

A node of the tree is a key and a chain code, both 32 bytes; child number i is the key plus a number that HMAC-SHA512
computes from the chain code, the key and i. From 2³¹ on a child is *hardened*: that number comes from the private key,
so that a child's key together with the parent's public one shows nothing about the parent. The others come from the
public key, and can therefore be derived from it alone.

The text of a node (`xprv…`, `xpub…`) also has its depth, its number and its parent's fingerprint, in base 58 with a
checksum. The reader checks all of it, because it comes from outside.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Final, TypeAlias

import coincurve

from rota.keys.secp256k1 import ORDER, PrivateKey
from rota.keys.secret import Secret

HARDENED: Final = 1 << 31
INDEX_MAX: Final = (1 << 32) - 1
DEPTH_MAX: Final = 255
SEED_BYTES_MIN: Final = 16
SEED_BYTES_MAX: Final = 64
EXTENDED_CHARACTERS_MAX: Final = 112

Path: TypeAlias = tuple[int, ...]

_PRIVATE_VERSION: Final = bytes.fromhex("0488ade4")
_PUBLIC_VERSION: Final = bytes.fromhex("0488b21e")
_EXTENDED_BYTES: Final = 78
_CHECKSUM_BYTES: Final = 4
_KEY_BYTES: Final = 32
_HEAD_BYTES: Final = 13
_NO_PARENT: Final = bytes(4)
_ALPHABET: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_STEP: Final = re.compile(r"(0|[1-9][0-9]{0,9})(['hH]?)")


class ExtendedPublicKey:
    """A node of the tree without its private key: gives addresses, and children that are not hardened."""

    __slots__ = ("chain_code", "depth", "index", "key", "parent")

    def __init__(
        self, key: bytes, chain_code: bytes, depth: int = 0, index: int = 0, parent: bytes = _NO_PARENT
    ) -> None:
        self.key: Final = key
        self.chain_code: Final = chain_code
        self.depth: Final = depth
        self.index: Final = index
        self.parent: Final = parent

    def child(self, index: int) -> ExtendedPublicKey:
        """The child of this number."""
        assert 0 <= index < HARDENED, f"a public key has the children 0 to {HARDENED - 1}, not {index}"
        assert self.depth < DEPTH_MAX, f"a path has at most {DEPTH_MAX} steps"
        left, chain_code = _child_numbers(self.chain_code, self.key, index)
        assert 0 < int.from_bytes(left, "big") < ORDER, "there is a key at every number but one in 2^127"
        key = coincurve.PublicKey(self.key).add(left).format()
        return ExtendedPublicKey(key, chain_code, self.depth + 1, index, self.fingerprint)

    @property
    def fingerprint(self) -> bytes:
        """Four bytes by which a child names its parent, enough to notice a mistake."""
        return hashlib.new("ripemd160", hashlib.sha256(self.key).digest()).digest()[:4]

    def serialised(self) -> str:
        """`xpub…`: not a secret, but it shows which addresses belong together."""
        return _base58(_head(_PUBLIC_VERSION, self) + self.chain_code + self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExtendedPublicKey) and self.serialised() == other.serialised()

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"ExtendedPublicKey(depth {self.depth}, fingerprint {self.fingerprint.hex()})"


class ExtendedPrivateKey:
    """A node of the tree. Neither its key nor its chain code shows in its `repr` or in an error."""

    __slots__ = ("_chain_code", "_key", "depth", "index", "parent")

    def __init__(
        self, key: Secret, chain_code: Secret, depth: int = 0, index: int = 0, parent: bytes = _NO_PARENT
    ) -> None:
        self._key: Final = key
        self._chain_code: Final = chain_code
        self.depth: Final = depth
        self.index: Final = index
        self.parent: Final = parent

    def child(self, index: int) -> ExtendedPrivateKey:
        """The child of this number; from 2³¹ on a hardened one."""
        assert 0 <= index <= INDEX_MAX, f"a child's number is from 0 to {INDEX_MAX}, not {index}"
        assert self.depth < DEPTH_MAX, f"a path has at most {DEPTH_MAX} steps"
        key, chain_code = self._child_secrets(index)
        return ExtendedPrivateKey(key, chain_code, self.depth + 1, index, self.public.fingerprint)

    def at(self, path: Path) -> ExtendedPrivateKey:
        """The node at the end of a path from here."""
        node = self
        for index in path:
            node = node.child(index)
        return node

    def key_at(self, path: Path) -> PrivateKey:
        """The key at the end of a path from here; for a hardened path much faster than `at`.

        The nodes in between are not returned, so their fingerprints, which cost a point each, are not computed.
        """
        node = self
        for index in path:
            node = ExtendedPrivateKey(*node._child_secrets(index), node.depth + 1, index)
        return PrivateKey(node._key.reveal())

    @property
    def public(self) -> ExtendedPublicKey:
        """The same node without its private key."""
        return ExtendedPublicKey(_public(self._key), self._chain_code.reveal(), self.depth, self.index, self.parent)

    def serialised(self) -> Secret:
        """`xprv…`: it gives every key below."""
        content = _head(_PRIVATE_VERSION, self) + self._chain_code.reveal() + b"\0" + self._key.reveal()
        return Secret(_base58(content))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExtendedPrivateKey) and self.serialised() == other.serialised()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ExtendedPrivateKey(depth {self.depth}, not shown)"

    def _child_secrets(self, index: int) -> tuple[Secret, Secret]:
        known = b"\0" + self._key.reveal() if index >= HARDENED else _public(self._key)
        left, chain_code = _child_numbers(self._chain_code.reveal(), known, index)
        number = (int.from_bytes(left, "big") + int.from_bytes(self._key.reveal(), "big")) % ORDER
        assert int.from_bytes(left, "big") < ORDER, "there is a key at every number but one in 2^127"
        assert number, "there is a key at every number but one in 2^256"
        return Secret(number.to_bytes(_KEY_BYTES, "big")), Secret(chain_code)


def master_key(seed: Secret) -> ExtendedPrivateKey:
    """The root of the tree that grows from a seed of 16 to 64 bytes."""
    if not SEED_BYTES_MIN <= len(seed) <= SEED_BYTES_MAX:
        raise ValueError(f"seed: {SEED_BYTES_MIN} to {SEED_BYTES_MAX} bytes, not {len(seed)}")
    both = Secret(hmac.digest(b"Bitcoin seed", seed.reveal(), "sha512"))
    key = Secret(both.reveal()[:_KEY_BYTES])
    if not _is_private_key(key):
        raise ValueError("seed: this one gives no key; there is one such seed in 2^127")
    return ExtendedPrivateKey(key, Secret(both.reveal()[_KEY_BYTES:]))


def read_extended_private_key(text: Secret) -> ExtendedPrivateKey:
    """Read an `xprv…`. A `ValueError` names the error and contains no part of the text."""
    content = Secret(_checked_content(text, _PRIVATE_VERSION, "xprv"))
    key = Secret(content.reveal()[46:])
    if content.reveal()[45] != 0 or not _is_private_key(key):
        raise ValueError("extended key: it holds no private key of secp256k1")
    depth, parent, index = _read_head(content.reveal()[:_HEAD_BYTES])
    return ExtendedPrivateKey(key, Secret(content.reveal()[13:45]), depth, index, parent)


def read_extended_public_key(text: str) -> ExtendedPublicKey:
    """Read an `xpub…`. A `ValueError` names the error."""
    content = _checked_content(Secret(text), _PUBLIC_VERSION, "xpub")
    try:
        coincurve.PublicKey(content[45:])
    except ValueError:
        raise ValueError("extended key: it holds no point of secp256k1") from None
    depth, parent, index = _read_head(content[:_HEAD_BYTES])
    return ExtendedPublicKey(content[45:], content[13:45], depth, index, parent)


def read_path(text: str) -> Path:
    """The numbers of a path such as m/44'/60'/0'/0/0; ' or h marks a hardened one. `ValueError` names the step."""
    first, *steps = text.split("/")
    if first != "m":
        raise ValueError("path: it begins with m, as m/44'/60'/0'/0/0 does")
    if len(steps) > DEPTH_MAX:
        raise ValueError(f"path: at most {DEPTH_MAX} steps, not {len(steps)}")
    return tuple(_read_step(number, step) for number, step in enumerate(steps, 1))


def write_path(path: Path) -> str:
    """The path as text; hardened steps are marked by '."""
    steps = (f"{index - HARDENED}'" if index >= HARDENED else str(index) for index in path)
    return "/".join(("m", *steps))


def _read_step(number: int, step: str) -> int:
    match = _STEP.fullmatch(step)
    if not match or int(match[1]) >= HARDENED:
        raise ValueError(f"path: step {number} is a number from 0 to {HARDENED - 1}, with ' behind it if hardened")
    return int(match[1]) + (HARDENED if match[2] else 0)


def _child_numbers(chain_code: bytes, known: bytes, index: int) -> tuple[bytes, bytes]:
    both = hmac.digest(chain_code, known + index.to_bytes(4, "big"), "sha512")
    return both[:_KEY_BYTES], both[_KEY_BYTES:]


def _public(key: Secret) -> bytes:
    return coincurve.PublicKey.from_secret(key.reveal()).format()


def _is_private_key(key: Secret) -> bool:
    return 0 < int.from_bytes(key.reveal(), "big") < ORDER


def _head(version: bytes, node: ExtendedPrivateKey | ExtendedPublicKey) -> bytes:
    return version + node.depth.to_bytes(1, "big") + node.parent + node.index.to_bytes(4, "big")


def _read_head(head: bytes) -> tuple[int, bytes, int]:
    """Depth, parent and number. The root has no parent and no number; a text with other values is invalid."""
    depth, parent, index = head[4], head[5:9], int.from_bytes(head[9:], "big")
    if depth == 0 and (parent != _NO_PARENT or index != 0):
        raise ValueError("extended key: one of depth 0 has no parent and the number 0")
    return depth, parent, index


def _checked_content(text: Secret, version: bytes, prefix: str) -> bytes:
    if len(text) > EXTENDED_CHARACTERS_MAX:
        raise ValueError(f"extended key: at most {EXTENDED_CHARACTERS_MAX} characters, not {len(text)}")
    content = Secret(_from_base58(text))
    if len(content) != _EXTENDED_BYTES + _CHECKSUM_BYTES:
        raise ValueError(f"extended key: {_EXTENDED_BYTES + _CHECKSUM_BYTES} bytes, not {len(content)}")
    if _checksum(content.reveal()[:_EXTENDED_BYTES]) != content.reveal()[_EXTENDED_BYTES:]:
        raise ValueError("extended key: the checksum is wrong; a character is another one")
    if content.reveal()[:4] != version:
        raise ValueError(f"extended key: it begins with {prefix}")
    return content.reveal()[:_EXTENDED_BYTES]


def _checksum(content: bytes) -> bytes:
    return hashlib.sha256(hashlib.sha256(content).digest()).digest()[:_CHECKSUM_BYTES]


def _base58(content: bytes) -> str:
    """With a checksum behind. Our versions are never zero, so that no leading zeros have to be kept."""
    number = int.from_bytes(content + _checksum(content), "big")
    digits = []
    while number:
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))


def _from_base58(text: Secret) -> bytes:
    if not all(character in _ALPHABET for character in text.reveal().decode(errors="replace")):
        raise ValueError("extended key: a character is not one of base 58")
    number = 0
    for character in text.reveal().decode():
        number = number * len(_ALPHABET) + _ALPHABET.index(character)
    return number.to_bytes((number.bit_length() + 7) // 8, "big")
