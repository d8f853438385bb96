"""Notary tokens: coins that somebody owns, and one notary that endorses what becomes of them."""

from rota.domains.noto.domain import Noto

__all__ = ["Noto"]
