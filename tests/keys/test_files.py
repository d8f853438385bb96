"""Files that only their owner reads: what is written, what is refused, and what a crash leaves."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from rota.keys.files import (
    FILE_BYTES_MAX,
    AlreadyThere,
    NotThere,
    Unreadable,
    UnsafePermissions,
    make_folder,
    move,
    read_private,
    require_private_folder,
    write_new,
)
from rota.keys.secret import Secret


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_folder(tmp_path / "keys")
    return tmp_path / "keys"


def test_a_new_file_is_its_owner_s_alone_whatever_the_umask(folder: Path) -> None:
    before = os.umask(0)
    try:
        make_folder(folder / "inner")
        write_new(folder / "key", Secret(b"content"))
    finally:
        os.umask(before)
    assert mode_of(folder / "key") == 0o600
    assert mode_of(folder / "inner") == 0o700
    assert read_private(folder / "key") == Secret(b"content")


def test_what_is_there_is_not_overwritten_and_nothing_is_left_beside_it(folder: Path) -> None:
    write_new(folder / "key", Secret(b"first"))
    with pytest.raises(AlreadyThere, match="it is there already and is not overwritten"):
        write_new(folder / "key", Secret(b"second"))
    assert read_private(folder / "key") == Secret(b"first")
    assert os.listdir(folder) == ["key"]


def test_a_link_that_leads_nowhere_is_not_written_through(folder: Path, tmp_path: Path) -> None:
    (folder / "key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AlreadyThere):
        write_new(folder / "key", Secret(b"content"))
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o660, 0o644, 0o777, 0o601])
def test_a_file_that_others_may_touch_is_not_read(folder: Path, mode: int) -> None:
    write_new(folder / "key", Secret(b"content"))
    (folder / "key").chmod(mode)
    with pytest.raises(UnsafePermissions, match=f"its mode is {mode:o} and must be 600: chmod 600 "):
        read_private(folder / "key")


def test_a_file_that_its_owner_may_only_read_is_read(folder: Path) -> None:
    write_new(folder / "key", Secret(b"content"))
    (folder / "key").chmod(0o400)
    assert read_private(folder / "key") == Secret(b"content")


def test_a_folder_that_others_may_enter_is_refused(folder: Path) -> None:
    folder.chmod(0o755)
    with pytest.raises(UnsafePermissions, match="its mode is 755 and must be 700"):
        make_folder(folder)


def test_a_file_of_somebody_else_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_new(folder / "key", Secret(b"content"))
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(UnsafePermissions, match=f"it belongs to user {owner} and we are user {owner + 1}"):
        read_private(folder / "key")


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_is_not_read_and_does_not_hold_us_up(folder: Path, make: Callable[[Path], None]) -> None:
    make(folder / "key")
    with pytest.raises(Unreadable, match="it must be a file, not a folder, a pipe or a device"):
        read_private(folder / "key")


def test_a_file_that_is_too_large_is_not_read(folder: Path) -> None:
    write_new(folder / "key", Secret(bytes(FILE_BYTES_MAX)))
    assert len(read_private(folder / "key")) == FILE_BYTES_MAX
    write_new(folder / "large", Secret(bytes(FILE_BYTES_MAX + 1)))
    with pytest.raises(Unreadable, match=f"at most {FILE_BYTES_MAX} bytes"):
        read_private(folder / "large")


def test_what_is_not_there_is_said_to_be_missing(folder: Path) -> None:
    with pytest.raises(NotThere, match="there is no such file"):
        read_private(folder / "key")
    with pytest.raises(NotThere, match="there is no such file"):
        move(folder / "key", folder / "other")
    with pytest.raises(NotThere, match="there is no such folder"):
        require_private_folder(folder / "inner")


def test_what_cannot_be_written_is_told_with_the_system_s_words(folder: Path) -> None:
    write_new(folder / "file", Secret(b""))
    with pytest.raises(Unreadable, match="Not a directory"):
        write_new(folder / "file" / "key", Secret(b"content"))
    with pytest.raises(Unreadable, match="Not a directory"):
        read_private(folder / "file" / "key")
    with pytest.raises(Unreadable, match="Not a directory"):
        make_folder(folder / "file" / "inner")
    with pytest.raises(Unreadable, match="it must be a folder"):
        require_private_folder(folder / "file")


@pytest.mark.parametrize("call", ["fsync", "link"])
def test_a_full_disk_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(Unreadable, match="key: No space left on device"):
        write_new(folder / "key", Secret(b"content"))
    assert os.listdir(folder) == []


def test_what_the_system_cannot_do_is_told_with_its_words(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_new(folder / "key", Secret(b"content"))
    make_folder(folder / "inner")
    with pytest.raises(Unreadable, match="File name too long"):
        require_private_folder(folder / ("x" * 300))
    with pytest.raises(Unreadable, match="Is a directory"):
        move(folder / "key", folder / "inner")

    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "read", fail)
    with pytest.raises(Unreadable, match="Input/output error"):
        read_private(folder / "key")


def test_a_moved_file_takes_the_place_of_the_old_one(folder: Path) -> None:
    write_new(folder / "current", Secret(b"old"))
    write_new(folder / "next", Secret(b"new"))
    move(folder / "next", folder / "current")
    assert os.listdir(folder) == ["current"]
    assert read_private(folder / "current") == Secret(b"new")
