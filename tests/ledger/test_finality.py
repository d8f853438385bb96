"""What kind of chain a node is on, and how many confirmations that needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from rota.ledger.client import Call, Together
from rota.ledger.finality import ISTANBUL, ChainKind, WrongConfirmations, confirmations_for, kind_of
from rota.ledger.transports import RpcFailure
from rota.ports import Unavailable
from tests.store.kit import in_loop

LOSES_BLOCKS = ChainKind("a chain that may lose its latest blocks (Geth)", 12)
FINAL = ChainKind("IBFT or QBFT (besu)", 0)
UNKNOWN = RpcFailure(-32601, "the method does not exist")


@dataclass
class Shown:
    """An Ethereum node with these answers."""

    version: object = UNKNOWN
    header: object = field(default_factory=lambda: {"difficulty": "0x2"})
    validators: dict[str, object] = field(default_factory=dict)
    chain_id: object = "0x7"
    place: str = "somewhere"

    async def call_together(self, *calls: Call, attempts_max: int | None = None) -> Together:
        answers = {
            "eth_chainId": self.chain_id,
            "web3_clientVersion": self.version,
            "eth_getBlockByNumber": self.header,
            **self.validators,
        }
        assert attempts_max is not None
        return Together(tuple(answers.get(call.method, UNKNOWN) for call in calls), True)


@pytest.mark.parametrize(
    ("shown", "confirmations"),
    [
        (Shown("rota/1.0/embedded", {"difficulty": "0x0"}), 0),
        (Shown("anvil/v1.2.3", {"difficulty": "0x0"}), 0),
        (Shown("HardhatNetwork/2.22.1/@nomicfoundation", {"difficulty": "0x0"}), 0),
        (Shown("besu/v24.1.0/linux", {"difficulty": "0x1", "mixHash": ISTANBUL}), 0),
        (Shown("besu/v24.1.0/linux", {"difficulty": "0x1"}, {"qbft_getValidatorsByBlockNumber": ["0x01"]}), 0),
        (Shown("besu/v24.1.0/linux", {"difficulty": "0x1"}, {"ibft_getValidatorsByBlockNumber": ["0x01"]}), 0),
        (Shown("Geth/v1.10.3-stable(quorum-v23.4.0)/linux", {"difficulty": "0x1", "mixHash": ISTANBUL}), 0),
        (Shown("Geth/v1.14.0/linux", {"difficulty": "0x0", "mixHash": "0x" + "11" * 32}), 64),
        (Shown("besu/v24.1.0/linux", {"difficulty": "0x2"}, {"qbft_getValidatorsByBlockNumber": []}), 12),
        (Shown("Geth/v1.10.0/linux", {"difficulty": "0x20000"}), 12),
        (Shown(UNKNOWN, {"difficulty": "0x20000"}), 12),
        (Shown(UNKNOWN, UNKNOWN), 12),
    ],
)
def test_confirmations_follow_from_what_the_chain_is(shown: Shown, confirmations: int) -> None:
    client: Any = shown

    @in_loop
    async def asked() -> None:
        kind = await kind_of(client, 7)
        assert kind.confirmations == confirmations
        assert kind.may_lose_blocks is (confirmations > 0)

    asked()


@pytest.mark.parametrize("chain_id", ["0x8", UNKNOWN])
@in_loop
async def test_node_of_another_chain_is_not_asked(chain_id: object) -> None:
    shown: Any = Shown(chain_id=chain_id)
    with pytest.raises(Unavailable, match="is not on chain 7"):
        await kind_of(shown, 7)


def test_what_is_left_out_follows_from_the_chain() -> None:
    assert confirmations_for(FINAL, None, accepts_lost_blocks=False) == 0
    assert confirmations_for(LOSES_BLOCKS, None, accepts_lost_blocks=False) == 12


def test_zero_is_refused_where_blocks_can_be_lost_unless_asked_for_by_name() -> None:
    assert confirmations_for(FINAL, 0, accepts_lost_blocks=False) == 0
    with pytest.raises(WrongConfirmations, match=r"ledger\.confirmations: 0 is refused .* set it to 12"):
        confirmations_for(LOSES_BLOCKS, 0, accepts_lost_blocks=False)
    assert confirmations_for(LOSES_BLOCKS, 0, accepts_lost_blocks=True) == 0


def test_number_that_is_set_is_used() -> None:
    assert confirmations_for(LOSES_BLOCKS, 3, accepts_lost_blocks=False) == 3
    assert confirmations_for(FINAL, 3, accepts_lost_blocks=False) == 3
