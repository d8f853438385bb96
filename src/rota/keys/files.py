"""Files that only their owner can read: written whole or not at all, and not read when others could have.

A file is written under a temporary name, made durable, and then renamed. `write_new` uses a link, which fails when the
name exists: no key is ever overwritten, even by another process at the same time. Reading checks the open file and not
its name, so that it cannot be exchanged between the check and the read.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from rota.keys.secret import Secret

FILE_BYTES_MAX: Final = 64 * 1024
FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700


class KeyFileError(Exception):
    """A file of keys is invalid. The message names the file and the valid form, and no secret."""


class AlreadyThere(KeyFileError):
    """The file exists; it is not overwritten."""


class NotThere(KeyFileError):
    """The file does not exist."""


class UnsafePermissions(KeyFileError):
    """Others than the owner may read or write the file, or it has another owner."""


class Unreadable(KeyFileError):
    """The operating system refuses to read or write, or the file is no plain file of a usual size."""


def make_folder(folder: Path) -> None:
    """Make a folder for its owner alone, and the folders above it; an existing one must be private already."""
    try:
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise Unreadable(f"{folder}: {error.strerror}") from None
    require_private_folder(folder)


def require_private_folder(folder: Path) -> None:
    """A user who may write to a folder can exchange the files in it."""
    try:
        status = folder.stat()
    except FileNotFoundError:
        raise NotThere(f"{folder}: there is no such folder") from None
    except OSError as error:
        raise Unreadable(f"{folder}: {error.strerror}") from None
    if not stat.S_ISDIR(status.st_mode):
        raise Unreadable(f"{folder}: it must be a folder")
    _require_private(folder, status, FOLDER_MODE)


def read_private(path: Path) -> Secret:
    """The content of a file that only its owner may read."""
    try:
        # Without `O_NONBLOCK` a pipe in its place would block.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise NotThere(f"{path}: there is no such file") from None
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable(f"{path}: it must be a file, not a folder, a pipe or a device")
        _require_private(path, status, FILE_MODE)
        if status.st_size > FILE_BYTES_MAX:
            raise Unreadable(f"{path}: at most {FILE_BYTES_MAX} bytes")
        return Secret(os.read(descriptor, FILE_BYTES_MAX))
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror}") from None
    finally:
        os.close(descriptor)


def write_new(path: Path, content: Secret) -> None:
    """Write a new file; `AlreadyThere` if it exists."""
    written = _write_beside(path, content)
    try:
        os.link(written, path)
    except FileExistsError:
        raise AlreadyThere(f"{path}: it is there already and is not overwritten") from None
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror}") from None
    finally:
        written.unlink()
    _make_folder_durable(path.parent)


def write_over(path: Path, content: Secret) -> None:
    """Write a file in place of an existing one; durable on return."""
    move(_write_beside(path, content), path)


def move(source: Path, target: Path) -> None:
    """Give a file the name of another, which is replaced; durable on return."""
    try:
        os.replace(source, target)
    except FileNotFoundError:
        raise NotThere(f"{source}: there is no such file") from None
    except OSError as error:
        raise Unreadable(f"{source}: {error.strerror}") from None
    _make_folder_durable(target.parent)


def _write_beside(path: Path, content: Secret) -> Path:
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.reveal())
            file.flush()
            os.fsync(descriptor)
    except OSError as error:
        beside.unlink()
        raise Unreadable(f"{path}: {error.strerror}") from None
    return beside


def _make_folder_durable(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _require_private(path: Path, status: os.stat_result, right: int) -> None:
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise UnsafePermissions(f"{path}: its mode is {mode:o} and must be {right:o}: chmod {right:o} {path}")
    if status.st_uid != os.geteuid():
        raise UnsafePermissions(f"{path}: it belongs to user {status.st_uid} and we are user {os.geteuid()}")
