"""The kind of chain an Ethereum node is on, and how many confirmations make its blocks final.

A chain whose validators agree on each block before it counts (IBFT, QBFT) never takes one back, and neither does a
development chain that one process makes: 0. IBFT and QBFT blocks have a fixed `mixHash`, and Besu reports their
validators. A proof-of-stake chain is final after two epochs of 32 slots: 64. Every other chain, by proof of work, by
proof of authority (Clique) or unknown, loses its latest blocks now and again: 12.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from rota.ledger.client import Call, RpcClient
from rota.ledger.hexadecimal import read_data, read_quantity
from rota.ledger.transports import RpcFailure
from rota.model.types import BlockHash
from rota.ports import Unavailable

ATTEMPTS_MAX: Final = 3
HASH_BYTES: Final = 32
USUAL: Final = 12
PROOF_OF_STAKE: Final = 64
# The `mixHash` of all blocks of the Istanbul family.
ISTANBUL: Final = "0x63746963616c2062797a616e74696e65206661756c7420746f6c6572616e6365"
VALIDATORS: Final = ("qbft_getValidatorsByBlockNumber", "ibft_getValidatorsByBlockNumber")
# How the client versions of development chains begin.
DEVELOPMENT: Final = ("rota/", "anvil/", "hardhatnetwork/", "ganache/", "ethereumjs testrpc/")


class WrongConfirmations(Exception):
    """The configured number is wrong for this chain; the text has the right one."""


@dataclass(frozen=True, slots=True)
class ChainKind:
    """A chain as its node reports it."""

    name: str
    confirmations: int
    # The hash of block 0, if the node returns it.
    genesis: BlockHash | None = None

    @property
    def may_lose_blocks(self) -> bool:
        """Whether its latest blocks can be taken back."""
        return self.confirmations > 0


async def kind_of(client: RpcClient, chain_id: int) -> ChainKind:
    """Return the kind of a node's chain. `Unavailable` when it does not answer, or is on another chain."""
    together = await client.call_together(
        Call("eth_chainId"),
        Call("web3_clientVersion"),
        Call("eth_getBlockByNumber", ("latest", False)),
        Call("eth_getBlockByNumber", ("0x0", False)),
        *(Call(method, ("latest",)) for method in VALIDATORS),
        attempts_max=ATTEMPTS_MAX,
    )
    found, version, block, first, *validators = together.answers
    if isinstance(found, RpcFailure) or read_quantity(found) != chain_id:
        raise Unavailable(f"the Ethereum node at {client.place} is not on chain {chain_id}")
    shown = version if isinstance(version, str) else ""
    header = block if isinstance(block, dict) else {}
    kind = _judged(shown, header, any(isinstance(each, list) and each for each in validators))
    return replace(kind, genesis=hash_of(first))


def require_same_chain(place: str, known: BlockHash | None, found: BlockHash | None) -> None:
    """Raise `Unavailable` if the chain's block 0 differs from the one in the database."""
    if known is None or found is None or known == found:
        return
    raise Unavailable(
        f"the Ethereum node at {place} is on another chain: its block 0 is 0x{found.hex()}, and that of this node's "
        f"database is 0x{known.hex()}; set ledger.url to a node of that chain, or start with an empty database"
    )


def hash_of(block: object) -> BlockHash | None:
    """Return the hash of a block from an Ethereum node's answer, or None; without a hash the check is skipped."""
    try:
        return BlockHash(read_data(block["hash"], HASH_BYTES)) if isinstance(block, dict) else None
    except (KeyError, ValueError):
        return None


def _judged(version: str, header: dict[str, object], has_validators: bool) -> ChainKind:
    name = version.split("/")[0] or "an unknown client"
    if version.lower().startswith(DEVELOPMENT):
        return ChainKind(f"a chain for development ({name})", 0)
    if has_validators or header.get("mixHash") == ISTANBUL:
        return ChainKind(f"IBFT or QBFT ({name})", 0)
    if _difficulty(header) == 0:
        return ChainKind(f"proof of stake ({name})", PROOF_OF_STAKE)
    return ChainKind(f"a chain that may lose its latest blocks ({name})", USUAL)


def _difficulty(header: dict[str, object]) -> int | None:
    try:
        return read_quantity(header.get("difficulty"))
    except ValueError:
        return None


def confirmations_for(kind: ChainKind, wanted: int | None, accepts_lost_blocks: bool) -> int:
    """Return the configured number, or else the chain's. `WrongConfirmations` where blocks could be lost unnoticed."""
    if wanted is None:
        return kind.confirmations
    if wanted == 0 and kind.may_lose_blocks and not accepts_lost_blocks:
        raise WrongConfirmations(
            f"ledger.confirmations: 0 is refused on {kind.name}, where receipts would turn out false; leave it out or "
            f"set it to {kind.confirmations}, or set ledger.accept_lost_blocks = true"
        )
    return wanted
