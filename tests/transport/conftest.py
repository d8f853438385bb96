"""Imported before the tests, which import gRPC themselves: it has to be quietened first."""

import rota.transport  # noqa: F401
