"""Signers with their keys: from memory, from files, from a wallet. All three are a `KeyHolder` (ports).

A memory signer has the keys passed to it, under their names. A file signer reads a folder of keystores once, at start;
each costs a scrypt, so it is for the few imported keys. A wallet signer has a key for every name that `names` knows,
and derives it on first use.

Signing takes microseconds and happens at once; `sign` is asynchronous for signers that use another machine.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rota.keys.files import KeyFileError, make_folder, read_private, require_private_folder, write_new
from rota.keys.keystore import (
    DamagedKeystore,
    Keystore,
    ScryptCost,
    WrongPassword,
    decrypt,
    encrypt,
    parse,
    require_address,
    require_kind,
)
from rota.keys.names import path_of
from rota.keys.secp256k1 import ORDER, SECRET_BYTES, PrivateKey
from rota.keys.secret import Secret
from rota.keys.wallet import Wallet
from rota.model.types import ContractAddress
from rota.ports import KeyHolder, UnknownKey

DERIVED_KEYS_MAX: Final = 4096
FILES_MAX: Final = 256
KIND: Final = "key"


class MemorySigner:
    """Has the keys passed to it."""

    def __init__(self, keys: Mapping[str, PrivateKey]) -> None:
        self._keys: Final = dict(keys)

    def address_of(self, signer: str) -> ContractAddress:
        return address_text(self._key_of(signer))

    def public_key_of(self, name: str) -> bytes:
        return self._key_of(name).public

    async def sign(self, signer: str, digest: bytes) -> bytes:
        return self._key_of(signer).sign(digest)

    def derive(self, name: str, purpose: bytes, size_bytes: int) -> bytes:
        return self._key_of(name).derive(purpose, size_bytes)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(keys not shown)"

    def _key_of(self, signer: str) -> PrivateKey:
        key = self._keys.get(signer)
        if key is None:
            raise UnknownKey(f"there is no key of the name {signer}")
        return key


class FileSigner(MemorySigner):
    """Has the keys of a folder, one keystore file each."""

    def __init__(self, folder: Path, password: Secret) -> None:
        """Read all files. A `KeyFileError` names the invalid file, and then none of the keys is used."""
        require_private_folder(folder)
        paths = sorted(folder.glob("*.json"))
        if len(paths) > FILES_MAX:
            raise KeyFileError(f"{folder}: at most {FILES_MAX} keys, not {len(paths)}; a wallet holds any number")
        keys: dict[str, PrivateKey] = {}
        for path in paths:
            name, key = read_key(path, password)
            if name in keys:
                raise KeyFileError(f"{path}: rota.name: another file has the name {name} too")
            keys[name] = key
        super().__init__(keys)


class WalletSigner:
    """Has a key for every name: as many parties and contracts as there are."""

    def __init__(self, wallet: Wallet) -> None:
        self._root: Final = wallet.root
        self._kept: Final[OrderedDict[str, PrivateKey]] = OrderedDict()

    def address_of(self, signer: str) -> ContractAddress:
        return address_text(self._key_of(signer))

    def public_key_of(self, name: str) -> bytes:
        return self._key_of(name).public

    async def sign(self, signer: str, digest: bytes) -> bytes:
        return self._key_of(signer).sign(digest)

    def derive(self, name: str, purpose: bytes, size_bytes: int) -> bytes:
        return self._key_of(name).derive(purpose, size_bytes)

    def __repr__(self) -> str:
        return "WalletSigner(keys not shown)"

    def _key_of(self, signer: str) -> PrivateKey:
        """The keys used last stay in memory; the others are derived again."""
        key = self._kept.pop(signer, None)
        if key is None:
            try:
                path = path_of(signer)
            except ValueError as error:
                raise UnknownKey(str(error)) from None
            key = self._root.key_at(path)
            if len(self._kept) >= DERIVED_KEYS_MAX:
                self._kept.popitem(last=False)
        self._kept[signer] = key
        return key


class FirstSigner:
    """Uses the first of several signers that has the key: imported keys before derived ones."""

    def __init__(self, *signers: KeyHolder) -> None:
        self._signers: Final = signers

    def address_of(self, signer: str) -> ContractAddress:
        return self._holder_of(signer).address_of(signer)

    def public_key_of(self, name: str) -> bytes:
        return self._holder_of(name).public_key_of(name)

    async def sign(self, signer: str, digest: bytes) -> bytes:
        return await self._holder_of(signer).sign(signer, digest)

    def derive(self, name: str, purpose: bytes, size_bytes: int) -> bytes:
        return self._holder_of(name).derive(name, purpose, size_bytes)

    def __repr__(self) -> str:
        return f"FirstSigner({', '.join(map(repr, self._signers))})"

    def _holder_of(self, signer: str) -> KeyHolder:
        for holder in self._signers:
            try:
                holder.address_of(signer)
            except UnknownKey:
                continue
            return holder
        raise UnknownKey(f"there is no key of the name {signer}")


def write_key(folder: Path, name: str, secret: Secret, password: Secret, cost: ScryptCost) -> Path:
    """Write a key to a new file of a folder; the file's name is a hash of the key's, which may be long or odd."""
    key = _private_key_of(secret)
    path = folder / f"{hashlib.sha256(name.encode()).hexdigest()}.json"
    fields = {"address": key.address.hex(), "rota": {"kind": KIND, "name": name}}
    make_folder(folder)
    write_new(path, Secret(encrypt(secret, password, cost, fields)))
    return path


def read_key(path: Path, password: Secret) -> tuple[str, PrivateKey]:
    """The name and the key of a file."""
    try:
        keystore = parse(read_private(path))
        name = _name_of(keystore)
        key = _private_key_of(decrypt(keystore, password))
        require_address(keystore, key.address)
    except (DamagedKeystore, WrongPassword) as error:
        raise KeyFileError(f"{path}: {error}") from None
    return name, key


def address_text(key: PrivateKey) -> ContractAddress:
    """An address in our canonical form."""
    return ContractAddress("0x" + key.address.hex())


def _name_of(keystore: Keystore) -> str:
    require_kind(keystore, KIND)
    name = keystore["rota"].get("name")
    if not isinstance(name, str) or not name:
        raise DamagedKeystore("rota.name: must be the name of the key")
    return name


def _private_key_of(secret: Secret) -> PrivateKey:
    """Early tools wrote a key without its leading zeros. Errors are raised here, where no frame shows a key."""
    if len(secret) > SECRET_BYTES or not 0 < int.from_bytes(secret.reveal(), "big") < ORDER:
        raise DamagedKeystore(f"the secret must be a private key of secp256k1, at most {SECRET_BYTES} bytes")
    return PrivateKey(secret.reveal().rjust(SECRET_BYTES, b"\0"))
