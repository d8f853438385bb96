"""The wallet of a node: one list of words from which every key of the node and of its parties is derived.

The words are in a keystore file under the node's password, followed by the passphrase if there is one. The content is
text, so that a tool that takes every keystore for a single key refuses it. The file has the submitter's address in
clear text: it shows which wallet this is, and that the words are still those that were written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rota.keys.derivation import ExtendedPrivateKey, master_key
from rota.keys.files import KeyFileError, read_private, write_new
from rota.keys.keystore import (
    DamagedKeystore,
    ScryptCost,
    WrongPassword,
    decrypt,
    encrypt,
    parse,
    require_address,
    require_kind,
)
from rota.keys.mnemonics import read_phrase, seed_of
from rota.keys.names import SUBMITTER, path_of
from rota.keys.secret import Secret

KIND: Final = "wallet"
PASSPHRASE_BYTES_MAX: Final = 1024


class Wallet:
    """Words, a passphrase or none, and the tree of keys of both."""

    __slots__ = ("passphrase", "phrase", "root")

    def __init__(self, phrase: Secret, passphrase: Secret | None = None) -> None:
        """`ValueError` when the words are none of ours."""
        if passphrase is not None and not 1 <= len(passphrase) <= PASSPHRASE_BYTES_MAX:
            raise ValueError(f"passphrase: 1 to {PASSPHRASE_BYTES_MAX} bytes, or none")
        if passphrase is not None and not passphrase.is_text():
            raise ValueError("passphrase: it must be UTF-8")
        self.phrase: Final = read_phrase(phrase)
        self.passphrase: Final = passphrase
        self.root: Final[ExtendedPrivateKey] = master_key(seed_of(self.phrase, passphrase))

    @property
    def submitter_address(self) -> bytes:
        """The address that pays, unless a contract has its own."""
        return self.root.key_at(path_of(SUBMITTER)).address

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Wallet) and self.root == other.root

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "Wallet(not shown)"


def write_wallet(path: Path, wallet: Wallet, password: Secret, cost: ScryptCost) -> None:
    """Write a wallet to a new file."""
    content = wallet.phrase
    if wallet.passphrase is not None:
        content = Secret(wallet.phrase.reveal() + b"\n" + wallet.passphrase.reveal())
    fields = {"address": wallet.submitter_address.hex(), "rota": {"kind": KIND}}
    write_new(path, Secret(encrypt(content, password, cost, fields)))


def open_wallet(path: Path, password: Secret) -> Wallet:
    """The wallet of a file. A `KeyFileError` names the file, and what is invalid in it or in the password."""
    try:
        keystore = parse(read_private(path))
        require_kind(keystore, KIND)
        wallet = _wallet_of(decrypt(keystore, password))
        require_address(keystore, wallet.submitter_address)
    except (DamagedKeystore, WrongPassword) as error:
        raise KeyFileError(f"{path}: {error}") from None
    return wallet


def _wallet_of(content: Secret) -> Wallet:
    """A `ValueError` contains no word, so that it may be shown."""
    words, _, passphrase = (Secret(part) for part in content.reveal().partition(b"\n"))
    try:
        return Wallet(words, passphrase if len(passphrase) else None)
    except ValueError as error:
        raise DamagedKeystore(str(error)) from None
