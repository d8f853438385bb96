"""The roots that ledgers accept: of their coins the latest ones, and of registered owners all that ever were.

Roots that a reorganisation has taken back do not count. The registered owners themselves are read here too.
"""

from __future__ import annotations

from typing import Final

from rota.domains.base import Roots
from rota.ledger.bindings import decode_result, encode_call
from rota.ledger.client import RpcClient, RpcRefused
from rota.ledger.hexadecimal import data, read_data
from rota.model.digests import WORD_BYTES
from rota.model.types import ContractAddress
from rota.ports import RosterPage, Unavailable

_NULLIFIED: Final = "Nullified"
# Both ledgers with registered owners have it from `Identities.sol`.
_KYC: Final = "NullifiedKyc"


async def are_taken(client: RpcClient, contract: ContractAddress, roots: Roots) -> bool:
    """Return whether the latest block accepts these roots; missing or zero ones need no check. Else `Unavailable`."""
    asked = ((_NULLIFIED, "isRecent", roots.commitments), (_KYC, "isIdentitiesRoot", roots.roster))
    for ledger, function, root in asked:
        number = int.from_bytes(root, "big")
        if number and not await _is_taken(client, contract, ledger, function, number):
            return False
    return True


async def read_roster(client: RpcClient, contract: ContractAddress, first: int) -> RosterPage:
    """Return the registered owners after the first ones, as of the latest block. `Unavailable` without an answer."""
    try:
        call = {"to": contract, "data": data(encode_call(_KYC, "identities", first))}
        answer = await client.call("eth_call", call, "latest")
        root, count, page = decode_result(_KYC, "identities", read_data(answer))
    except (RpcRefused, ValueError) as error:
        raise Unavailable(f"which owners are registered with {contract}: {error}") from None
    return RosterPage(_word(root), count, tuple(map(_word, page)))


async def _is_taken(client: RpcClient, contract: ContractAddress, ledger: str, function: str, root: int) -> bool:
    call = {"to": contract, "data": data(encode_call(ledger, function, root))}
    try:
        answer = await client.call("eth_call", call, "latest")
        (is_taken,) = decode_result(ledger, function, read_data(answer))
    except (RpcRefused, ValueError) as error:
        raise Unavailable(f"whether {contract} takes a root: {error}") from None
    return bool(is_taken)


def _word(number: int) -> bytes:
    return number.to_bytes(WORD_BYTES, "big")
