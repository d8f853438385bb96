"""All key material of a node in one folder: made once, opened at every start.

    wallet.json               the words of the node's wallet, under its password
    transport/current.pem     its certificate and the key of that
    imported/                 keys that come from elsewhere, one keystore each under the same password; may be missing

Making is idempotent: existing files are opened and compared with the request, missing ones are made, and nothing is
overwritten, so that an interrupted run can be repeated.

The transport key has no password, as its file's mode protects it: it signs for no asset, and is replaced within a block
when it gets lost. Keys that sign are under the password.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rota.keys.certificates import Certificate
from rota.keys.files import AlreadyThere, KeyFileError, NotThere, make_folder, read_private
from rota.keys.keystore import ScryptCost, require_password
from rota.keys.mnemonics import new_phrase
from rota.keys.names import REGISTRAR, SUBMITTER
from rota.keys.secret import Secret
from rota.keys.signers import FileSigner, FirstSigner, WalletSigner
from rota.keys.transport_files import CURRENT, TransportFolder
from rota.keys.wallet import Wallet, open_wallet, write_wallet
from rota.model.types import ContractAddress, NodeName
from rota.ports import KeyHolder

WALLET: Final = "wallet.json"
TRANSPORT: Final = "transport"
IMPORTED: Final = "imported"


@dataclass(frozen=True, slots=True)
class NodeKeys:
    """A node's key material, opened."""

    node: NodeName
    wallet: Wallet
    signer: KeyHolder
    transport: TransportFolder
    certificate: Certificate

    @property
    def submitter(self) -> ContractAddress:
        """The address that pays for rounds, and has to be funded."""
        return self.signer.address_of(SUBMITTER)

    @property
    def registrar(self) -> ContractAddress:
        """The address that owns the node's registration, and pays for changes of it."""
        return self.signer.address_of(REGISTRAR)


@dataclass(frozen=True, slots=True)
class MadeKeys:
    """The result of `make_node_keys`. It has the words if they are new: show them once, to be written down."""

    keys: NodeKeys
    written: tuple[Path, ...]
    new_words: Secret | None


def make_node_keys(
    folder: Path,
    node: NodeName,
    password: Secret,
    now_s: int,
    wallet: Wallet | None = None,
    cost: ScryptCost | None = None,
) -> MadeKeys:
    """Make the missing files of a node's keys; with `wallet`, from words that its operator has.

    A `KeyFileError` when an existing file does not fit: another wallet, another password, another node's certificate.
    Then only missing files were written.
    """
    require_password(password)
    transport = TransportFolder(folder / TRANSPORT, node)
    make_folder(folder)
    kept, is_new = _ensure_wallet(folder / WALLET, password, wallet, ScryptCost() if cost is None else cost)
    identity, is_made = transport.ensure_current(now_s)
    written = [folder / WALLET] * is_new + [folder / TRANSPORT / CURRENT] * is_made
    keys = NodeKeys(node, kept, _signer_of(folder, kept, password), transport, identity.certificate)
    return MadeKeys(keys, tuple(written), kept.phrase if is_new and wallet is None else None)


def open_node_keys(folder: Path, node: NodeName, password: Secret) -> NodeKeys:
    """The keys of a node that `make_node_keys` has made. A `KeyFileError` names the missing or invalid file."""
    transport = TransportFolder(folder / TRANSPORT, node)
    certificate = transport.current().certificate
    wallet = open_wallet(folder / WALLET, password)
    return NodeKeys(node, wallet, _signer_of(folder, wallet, password), transport, certificate)


def open_signer(folder: Path, password: Secret) -> KeyHolder:
    """The signer of a node, whether or not its certificate exists. A `KeyFileError` names the error."""
    return _signer_of(folder, open_wallet(folder / WALLET, password), password)


def read_password(path: Path) -> Secret:
    """The password in a file that only its owner can read: its first line."""
    password = Secret(read_private(path).reveal().partition(b"\n")[0].removesuffix(b"\r"))
    try:
        require_password(password)
    except ValueError as error:
        raise KeyFileError(f"{path}: {error}") from None
    return password


def _signer_of(folder: Path, wallet: Wallet, password: Secret) -> KeyHolder:
    """An imported key takes precedence over the wallet's of the same name."""
    derived = WalletSigner(wallet)
    if not (folder / IMPORTED).exists():
        return derived
    return FirstSigner(FileSigner(folder / IMPORTED, password), derived)


def _ensure_wallet(path: Path, password: Secret, given: Wallet | None, cost: ScryptCost) -> tuple[Wallet, bool]:
    try:
        kept = open_wallet(path, password)
    except NotThere:
        made = Wallet(new_phrase()) if given is None else given
        write_wallet(path, made, password, cost)
        return made, True
    if given is not None and given != kept:
        address = kept.submitter_address.hex()
        raise AlreadyThere(f"{path}: it holds another wallet, whose submitter is 0x{address}, and is not overwritten")
    return kept, False
