"""Which roots of a tree of coins its ledger takes: the latest ones, and none that a reorganisation has taken back."""

from __future__ import annotations

from typing import Final

from rota.ledger.bindings import decode_result, encode_call
from rota.ledger.client import RpcClient, RpcRefused
from rota.ledger.hexadecimal import data, read_data
from rota.model.types import ContractAddress
from rota.ports import Unavailable

_LEDGER: Final = "Nullified"
_FUNCTION: Final = "isRecent"


async def is_recent(client: RpcClient, contract: ContractAddress, root: bytes) -> bool:
    """As the latest block has it. What shows no root, or zero, needs none. `Unavailable` when the chain cannot tell."""
    number = int.from_bytes(root, "big")
    if not number:
        return True
    call = {"to": contract, "data": data(encode_call(_LEDGER, _FUNCTION, number))}
    try:
        answer = await client.call("eth_call", call, "latest")
        (is_taken,) = decode_result(_LEDGER, _FUNCTION, read_data(answer))
    except (RpcRefused, ValueError) as error:
        raise Unavailable(f"whether {contract} takes a root: {error}") from None
    return bool(is_taken)
