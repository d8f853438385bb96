"""Rota: a distributed sequencer for private transactions on an Ethereum ledger."""

from rota import extras

extras.install()
