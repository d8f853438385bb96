"""A node that runs takes over what an operator writes to the file with the credentials."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry

from rota.api.credentials import EVERY_ROLE, Credential, make_token
from rota.api.credentials_file import entry_of, read_credentials
from rota.api.entrance import Entrance
from rota.api.settings import Settings
from rota.runtime.process import WatchedCredentials
from tests.api.kit import LOCAL
from tests.api.memory_node import MemoryNode
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


@in_loop
async def test_what_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "credentials.toml"
    write(path, ONE)
    settings = Settings(http=LOCAL, websocket=LOCAL, credentials=(ONE,))
    entrance = Entrance(MemoryNode(), settings, CollectorRegistry())
    watched = WatchedCredentials(path, entrance)
    for content, mode in (("", 0o600), ("nonsense", 0o600), (entry_of(TWO), 0o644)):
        path.write_text(content)
        path.chmod(mode)
        watched.look()
        assert entrance.credentials == (ONE,)
    path.unlink()
    watched.look()
    assert entrance.credentials == (ONE,)
