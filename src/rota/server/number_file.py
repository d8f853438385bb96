"""The number of a transaction that the database acknowledged, in a file beside the keys (`store.kept_number`)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rota.keys.files import KeyFileError, NotThere, read_private, write_over
from rota.keys.secret import Secret
from rota.ports import Unavailable

FILE_NAME: Final = "written"


class NumberFile:
    """`store.kept_number.Mark` in the folder with the keys."""

    def __init__(self, folder: Path) -> None:
        self._path: Final = folder / FILE_NAME

    def read(self) -> int:
        """Return the number; 0 when there is none. `Unavailable` when the file is malformed or unreadable."""
        try:
            return int(read_private(self._path).reveal())
        except NotThere:
            return 0
        except (KeyFileError, ValueError) as error:
            raise Unavailable(f"{self._path}: must hold the last write number of the database: {error}") from error

    def write(self, number: int) -> None:
        """Write the number durably. `Unavailable` when it cannot be written."""
        try:
            write_over(self._path, Secret(f"{number}\n".encode()))
        except (KeyFileError, OSError) as error:
            raise Unavailable(str(error)) from error
