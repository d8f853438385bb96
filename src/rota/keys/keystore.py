"""Secrets under a password, in the format of all Ethereum tools: keystore version 3.

The password and a salt are stretched by scrypt to 32 bytes. The first half is the key of AES-128 in counter mode, which
hides the secret; the second is hashed with the ciphertext, which shows a wrong password or a changed file before
anything is deciphered. We write scrypt with the cost that the format's tools use, and read PBKDF2 too. The cost that a
file asks for is bounded, because a hostile one could ask for all memory and days of work.

A wrong password and a changed ciphertext have the same error, because they look the same. No error contains the
password, the secret, or anything made of them.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import sha3
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES128
from cryptography.hazmat.primitives.ciphers.modes import CTR

from rota.keys.secret import Secret

VERSION: Final = 3
SECRET_BYTES_MAX: Final = 4096
PASSWORD_BYTES_MAX: Final = 1024
SALT_BYTES: Final = 32
SALT_BYTES_MAX: Final = 64
SCRYPT_MEMORY_BYTES_MAX: Final = 512 * 1024 * 1024
SCRYPT_WORK_MAX: Final = 1 << 24  # n · r · p; the format's own cost is 2²¹
PBKDF2_ROUNDS_MAX: Final = 10_000_000

_DERIVED_BYTES: Final = 32
_CIPHER: Final = "aes-128-ctr"
_IV_BYTES: Final = 16
_MAC_BYTES: Final = 32
_HEX: Final = re.compile("(?:[0-9a-fA-F]{2})*")


class DamagedKeystore(ValueError):
    """The content is no keystore; the message names the field."""


class WrongPassword(ValueError):
    """The password is wrong, or the ciphertext has changed: by design they look the same."""


class Keystore(dict[str, Any]):
    """The fields of a file that should be a keystore."""

    def __repr__(self) -> str:
        return "Keystore(not shown)"


@dataclass(frozen=True, slots=True)
class ScryptCost:
    """The cost of guessing passwords. By default a quarter of a gigabyte and most of a second for each guess."""

    n: int = 1 << 18
    r: int = 8
    p: int = 1

    def __post_init__(self) -> None:
        if self.n < 2 or self.n & (self.n - 1) or self.r < 1 or self.p < 1:
            raise DamagedKeystore("crypto.kdfparams: n is a power of two above 1, r and p are at least 1")
        if self.n.bit_length() > 16 * self.r:
            # OpenSSL demands this. The format's own example does not comply, but no tool of today writes such files.
            raise DamagedKeystore("crypto.kdfparams: n is below 2^(16 r), as RFC 7914 has it")
        if 128 * self.n * self.r > SCRYPT_MEMORY_BYTES_MAX or self.n * self.r * self.p > SCRYPT_WORK_MAX:
            raise DamagedKeystore(
                f"crypto.kdfparams: 128 n r is at most {SCRYPT_MEMORY_BYTES_MAX}, and n r p at most {SCRYPT_WORK_MAX}"
            )


def encrypt(secret: Secret, password: Secret, cost: ScryptCost, fields: Mapping[str, object]) -> bytes:
    """A keystore with this secret, as JSON, and these fields in clear text."""
    assert 1 <= len(secret) <= SECRET_BYTES_MAX, f"a secret has 1 to {SECRET_BYTES_MAX} bytes, not {len(secret)}"
    require_password(password)
    salt, iv = os.urandom(SALT_BYTES), os.urandom(_IV_BYTES)
    derived = _scrypt(password, salt, cost)
    ciphertext = _in_counter_mode(derived, iv, secret).reveal()
    keystore = {
        "version": VERSION,
        "id": str(uuid.uuid4()),
        **fields,
        "crypto": {
            "cipher": _CIPHER,
            "cipherparams": {"iv": iv.hex()},
            "ciphertext": ciphertext.hex(),
            "kdf": "scrypt",
            "kdfparams": {"n": cost.n, "r": cost.r, "p": cost.p, "dklen": _DERIVED_BYTES, "salt": salt.hex()},
            "mac": _mac(derived, ciphertext).hex(),
        },
    }
    return json.dumps(keystore, indent=2).encode() + b"\n"


def decrypt(keystore: Keystore, password: Secret) -> Secret:
    """The secret of a parsed keystore."""
    crypto = _Section("crypto", keystore.get("crypto"))
    ciphertext = crypto.hexadecimal("ciphertext", 1, SECRET_BYTES_MAX)
    mac = crypto.hexadecimal("mac", _MAC_BYTES, _MAC_BYTES)
    if crypto.text("cipher") != _CIPHER:
        raise DamagedKeystore(f"crypto.cipher: must be {_CIPHER}")
    iv = crypto.section("cipherparams").hexadecimal("iv", _IV_BYTES, _IV_BYTES)
    derived = _derive(crypto, password)
    if not hmac.compare_digest(_mac(derived, ciphertext), mac):
        raise WrongPassword("the password is wrong, or the file has been changed")
    return _in_counter_mode(derived, iv, Secret(ciphertext))


def parse(content: Secret) -> Keystore:
    """The fields of a keystore.

    The content is a `Secret` because a file that is no keystore may be a key in clear text.
    """
    keystore = _object_in(content)
    if keystore is None:
        raise DamagedKeystore("a keystore is a JSON object")
    if keystore.get("version") != VERSION or isinstance(keystore["version"], bool):
        raise DamagedKeystore(f"version: must be {VERSION}")
    return keystore


def require_kind(keystore: Keystore, kind: str) -> None:
    """A wallet is not accepted as a key, nor a key as a wallet."""
    ours = keystore.get("rota")
    if not isinstance(ours, dict) or ours.get("kind") != kind:
        raise DamagedKeystore(f"rota.kind: must be {kind}")


def require_address(keystore: Keystore, address: bytes) -> None:
    """The address is in clear text, so it may have been changed alone."""
    told = keystore.get("address")
    if told is not None and (not isinstance(told, str) or told.lower().removeprefix("0x") != address.hex()):
        raise DamagedKeystore(f"address: must be that of the key within, which is 0x{address.hex()}")


def require_password(password: Secret) -> None:
    """An empty password protects nothing."""
    if not 1 <= len(password) <= PASSWORD_BYTES_MAX:
        raise ValueError(f"password: 1 to {PASSWORD_BYTES_MAX} bytes")


def _object_in(content: Secret) -> Keystore | None:
    """Some tools begin a name with a capital letter. No error is raised here: a JSON decoder's contains its input."""
    try:
        read = json.loads(content.reveal())
    except (ValueError, RecursionError):
        return None
    return Keystore((name.lower(), value) for name, value in read.items()) if isinstance(read, dict) else None


class _Section:
    """An object within a keystore, read field by field; an error names the full path of the field."""

    def __init__(self, name: str, content: object) -> None:
        if not isinstance(content, dict):
            raise DamagedKeystore(f"{name}: must be an object")
        self._name: Final = name
        self._content: Final = content

    def section(self, field: str) -> _Section:
        return _Section(f"{self._name}.{field}", self._content.get(field))

    def text(self, field: str) -> str:
        value = self._content.get(field)
        if not isinstance(value, str):
            raise DamagedKeystore(f"{self._name}.{field}: must be text")
        return value

    def number(self, field: str, most: int) -> int:
        value = self._content.get(field)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise DamagedKeystore(f"{self._name}.{field}: must be a number from 1 to {most}")
        return value

    def hexadecimal(self, field: str, least_bytes: int, most_bytes: int) -> bytes:
        text = self.text(field).removeprefix("0x")
        if not 2 * least_bytes <= len(text) <= 2 * most_bytes or not _HEX.fullmatch(text):
            raise DamagedKeystore(f"{self._name}.{field}: must be {least_bytes} to {most_bytes} bytes in hex")
        return bytes.fromhex(text)


def _derive(crypto: _Section, password: Secret) -> Secret:
    parameters = crypto.section("kdfparams")
    salt = parameters.hexadecimal("salt", 1, SALT_BYTES_MAX)
    if parameters.number("dklen", _DERIVED_BYTES) != _DERIVED_BYTES:
        raise DamagedKeystore(f"crypto.kdfparams.dklen: must be {_DERIVED_BYTES}")
    match crypto.text("kdf"):
        case "scrypt":
            n, r, p = (parameters.number(field, SCRYPT_WORK_MAX) for field in "nrp")
            return _scrypt(password, salt, ScryptCost(n, r, p))
        case "pbkdf2":
            if parameters.text("prf") != "hmac-sha256":
                raise DamagedKeystore("crypto.kdfparams.prf: must be hmac-sha256")
            rounds = parameters.number("c", PBKDF2_ROUNDS_MAX)
            return Secret(hashlib.pbkdf2_hmac("sha256", password.reveal(), salt, rounds, _DERIVED_BYTES))
        case _:
            raise DamagedKeystore("crypto.kdf: must be scrypt or pbkdf2")


def _scrypt(password: Secret, salt: bytes, cost: ScryptCost) -> Secret:
    memory_bytes = 128 * cost.r * (cost.n + cost.p + 2)
    return Secret(
        hashlib.scrypt(
            password.reveal(), salt=salt, n=cost.n, r=cost.r, p=cost.p, maxmem=memory_bytes, dklen=_DERIVED_BYTES
        )
    )


def _in_counter_mode(derived: Secret, iv: bytes, text: Secret) -> Secret:
    """Encrypts and decrypts: in counter mode both are the same."""
    cipher = Cipher(AES128(derived.reveal()[:16]), CTR(iv)).encryptor()
    return Secret(cipher.update(text.reveal()) + cipher.finalize())


def _mac(derived: Secret, ciphertext: bytes) -> bytes:
    digest: bytes = sha3.keccak_256(derived.reveal()[16:] + ciphertext).digest()
    return digest
