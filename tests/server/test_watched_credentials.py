"""A node that runs takes over what an operator writes to files, each by itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from rota.keys.files import KeyFileError
from rota.rpc.credentials import EVERY_ROLE, Credential, make_token
from rota.server.credentials_file import entry_of, read_credentials
from rota.server.entrance import Entrance
from rota.server.settings import Settings
from rota.server.watched_files import FileWatch, WatchedCredentials
from tests.server.kit import LOCAL
from tests.server.memory_node import MemoryNode
from tests.store.kit import in_loop

ONE, TWO = (make_token(name, EVERY_ROLE)[1] for name in ("one", "two"))


def write(path: Path, *credentials: Credential) -> None:
    path.write_text("".join(entry_of(each) for each in credentials))
    path.chmod(0o600)


@in_loop
async def test_what_is_written_holds_from_the_next_look_on(tmp_path: Path) -> None:
    path = tmp_path / "credentials.toml"
    write(path, ONE)
    settings = Settings(http=LOCAL, websocket=LOCAL, credentials=read_credentials(path))
    entrance = Entrance(MemoryNode(), settings, CollectorRegistry())
    watched = WatchedCredentials(path, entrance)
    watched.look()
    assert [each.name for each in entrance.credentials] == ["one"]
    write(path, ONE, TWO)
    watched.look()
    assert [each.name for each in entrance.credentials] == ["one", "two"]


class Broken:
    """Raises what it is given, whatever that is."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def look(self) -> None:
        raise self.error


@in_loop
async def test_file_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "credentials.toml"
    write(path, ONE)
    settings = Settings(http=LOCAL, websocket=LOCAL, credentials=(ONE,))
    entrance = Entrance(MemoryNode(), settings, CollectorRegistry())
    files = FileWatch(WatchedCredentials(path, entrance))
    for content, mode in (("", 0o600), ("nonsense", 0o600), (entry_of(TWO), 0o644)):
        path.write_text(content)
        path.chmod(mode)
        files.look()
        assert entrance.credentials == (ONE,)
    path.unlink()
    files.look()
    assert entrance.credentials == (ONE,)


@pytest.mark.parametrize("error", [KeyFileError("unreadable"), OSError("gone"), AssertionError("ours"), KeyError("x")])
@in_loop
async def test_token_is_taken_back_although_another_file_cannot_be_read(tmp_path: Path, error: Exception) -> None:
    path = tmp_path / "credentials.toml"
    write(path, ONE, TWO)
    settings = Settings(http=LOCAL, websocket=LOCAL, credentials=(ONE, TWO))
    entrance = Entrance(MemoryNode(), settings, CollectorRegistry())
    files = FileWatch(Broken(error), WatchedCredentials(path, entrance))
    watching = asyncio.create_task(files.run(0.001))
    with capture_logs() as logs:
        await asyncio.sleep(0.01)
        write(path, ONE)
        while entrance.credentials != (ONE,):
            await asyncio.sleep(0.001)
    assert not watching.done()
    watching.cancel()
    told = [each for each in logs if each["event"] == "file.unusable"]
    assert [each["reason"] for each in told] == [f"{type(error).__name__}: {error}"]
