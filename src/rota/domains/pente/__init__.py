"""Privacy groups: members deploy and call ordinary Solidity contracts that nobody else sees."""

from rota.domains.pente.domain import Pente

__all__ = ["Pente"]
