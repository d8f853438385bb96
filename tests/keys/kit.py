"""What the tests of keys share: published vectors, cheap costs, and words that everybody knows."""

import json
from pathlib import Path
from typing import Any, Final

from rota.keys.keystore import ScryptCost
from rota.keys.secret import Secret
from rota.keys.wallet import Wallet
from rota.model.types import ContractAddress, IntentId, NodeName, Party

VECTORS: Final = Path(__file__).parent / "vectors"
CHEAP: Final = ScryptCost(n=2, r=8, p=1)
PASSWORD: Final = Secret("correct horse battery staple")
WORDS: Final = "test test test test test test test test test test test junk"
WALLET: Final = Wallet(Secret(WORDS))
NODE: Final = NodeName("node1")
ALICE: Final = Party("alice@node1")
CONTRACT: Final = ContractAddress("0x" + "c0ffee" * 6 + "c0ff")
DEPLOYMENT: Final = IntentId(bytes.fromhex("00112233445566778899aabbccddeeff"))
NOW_S: Final = 1_800_000_000


def vectors(name: str) -> Any:  # noqa: ANN401  # Each file has a shape of its own.
    return json.loads((VECTORS / f"{name}.json").read_text())
