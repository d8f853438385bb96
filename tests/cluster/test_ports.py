"""A port that is held is nobody else's, and is listened at by whom it is for."""

from __future__ import annotations

import errno
import socket

import pytest

from rota.localnet.namespaces import LOOPBACK
from rota.localnet.ports import held_port


def test_a_held_port_is_listened_at_again_and_again_and_nobody_answers_between() -> None:
    with held_port() as port:
        for _ in range(2):
            with socket.create_server((LOOPBACK, port)), socket.create_connection((LOOPBACK, port)):
                pass
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((LOOPBACK, port))


def test_a_held_port_is_given_to_nobody_else() -> None:
    with held_port() as port, socket.socket() as other:
        with pytest.raises(OSError, match="in use") as error:
            other.bind((LOOPBACK, port))
        assert error.value.errno == errno.EADDRINUSE
