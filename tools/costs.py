"""The cost ratchet: what transactions cost that does not depend on the machine; counts may only fall.

messages, bytes        between nodes; each message is encoded as a frame of its own
signatures             made: of transitions, endorsements and dispatches
verifications          signatures that are verified
writes, statements     orders to the store, each of which is durable before anything leaves; SQL statements in them
steps                  events that the core receives
gas                    of one transition in a round of this size, on the contract

All but the gas are of three nodes and so many intents of a load of `rota bench core`.

Usage: python -m tools.costs [check | record [--accept-rises]]
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rota.bench.core import contract_of, intents_of, loads_of, play
from rota.bench.gas import chained_transfer, group_transition, measure_load
from rota.bench.network import Network
from rota.chain.effects import SignDispatch
from rota.machine.effects import Effect, Persist
from rota.model.config import Config
from rota.model.digests import domain_separator
from rota.model.types import Contract, NodeName
from rota.sequencer.effects import (
    CheckRound,
    SignTransition,
    VerifyEndorsement,
    VerifyEndorsers,
    VerifyParties,
    VerifySignature,
)
from rota.store.records import Writing
from tools.ratchet import Item, Ratchet

ROOT: Final = Path(__file__).parent.parent
INTENTS: Final[Mapping[str, int]] = {"alone": 20, "loaded": 300, "chained": 300}
NODES: Final = 3
ROUND: Final = 64


class CountingNetwork(Network):
    """Also counts what nodes order of the store and of the keys."""

    def __init__(self, contract: Contract, config: Config, counts_bytes: bool = False) -> None:
        separators = {contract.address: domain_separator(contract.chain_id, contract.address)}
        self.ordered: Counter[str] = Counter()
        self._writing = {name: Writing(name, separators, config, lambda: 0) for name in contract.committee}
        super().__init__(contract, config, counts_bytes)
        self.ordered.clear()

    def _perform(self, name: NodeName, effects: list[Effect]) -> None:
        for effect in effects:
            self._count(name, effect)
        super()._perform(name, effects)

    def _count(self, name: NodeName, effect: Effect) -> None:
        ordered = self.ordered
        match effect:
            case Persist(contract, records):
                ordered["writes"] += 1
                writing = self._writing[name]
                ordered["statements"] += sum(len([*writing.statements(contract, each, 1)]) for each in records)
            case SignTransition() | SignDispatch():
                ordered["signatures"] += 1
            case CheckRound():
                ordered["signatures"] += 1
                ordered["verifications"] += len(effect.transitions)
            case VerifyParties():
                ordered["verifications"] += len(effect.transitions)
            case VerifyEndorsers():
                ordered["verifications"] += len(effect.signed)
            case VerifySignature() | VerifyEndorsement():
                ordered["verifications"] += 1
            case _:
                pass


def measure() -> dict[Item, int]:
    """All counts; those that are 0 are left out."""
    found: dict[Item, int] = {}
    for name, intents in INTENTS.items():
        load = next(each for each in loads_of(intents) if each.name == name)
        network = CountingNetwork(contract_of(NODES), Config(), counts_bytes=True)
        play(load, network, intents_of(load, network))
        counts = network.counts
        assert counts.confirmed == intents, f"{name}: every intent is confirmed"
        told = {"messages": counts.messages, "bytes": counts.size_bytes, "steps": counts.steps, **network.ordered}
        found.update({Item(f"{name}-{intents}", measure): count for measure, count in told.items() if count})
    found[Item(f"group-round-{ROUND}", "gas")] = round(measure_load(group_transition, NODES, ROUND))
    found[Item(f"notary-round-{ROUND}", "gas")] = round(measure_load(chained_transfer, 1, ROUND))
    return found


def advice(_: Item) -> str:
    """What to do about a count that has risen."""
    return "Each transaction pays for it: find a way without it, or give the reason in the commit."


RATCHET: Final = Ratchet(ROOT / "tests/costs.txt", "python -m tools.costs", advice)

if __name__ == "__main__":
    sys.exit(RATCHET.main(measure(), sys.argv[1:]))
