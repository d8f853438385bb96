"""Privacy groups: members deploy and call ordinary Solidity contracts that only they see."""

from rota.domains.pente.domain import Pente

__all__ = ["Pente"]
