"""The programme: the number of nodes, their transfers, the duration, and the chain.

Every transfer follows from the seed and its number, so that two runs request the same. The users of the nodes are
fixed: alice at node1, bob at node2, and so on.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum
from typing import Final

from rota.localnet.chains import ChainKind, RunningChain
from rota.model.types import NodeName, Party, Rotation

NODES_MIN: Final = 3
PEOPLE: Final = ("alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan")
NODES_MAX: Final = len(PEOPLE)
RATE_MIN_PER_S: Final = 0.5
RATE_MAX_PER_S: Final = 100.0
RATE_PER_S: Final = 20.0
SECONDS_MIN: Final = 3
SECONDS_MAX: Final = 600
SECONDS: Final = 30
BURST_MAX: Final = 1_000
BURST: Final = 300
SEED_MAX: Final = 2**32 - 1
SEED: Final = 1
STRICT_RANGE_SIZE: Final = 50

# More than any holder can spend, however long the demonstration runs.
EACH_BEGINS_WITH: Final = 1_000_000
AMOUNT_MAX: Final = 9


class Asset(Enum):
    """The kind of a transfer. The value is its name in the view."""

    TOKEN = "token"
    ERC20 = "ERC-20"


@dataclass(frozen=True, slots=True)
class Transfer:
    """One transfer that a user requests at its node."""

    number: int
    asset: Asset
    payer: Party
    payee: Party
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Programme:
    """`burst` is how many transfers are submitted at once at the end. `first_port` 0 leaves all ports to the kernel.

    `stays` keeps everything running once it is over.
    """

    node_count: int = NODES_MIN
    rate_per_s: float = RATE_PER_S
    seconds: int = SECONDS
    burst: int = BURST
    seed: int = SEED
    chain: ChainKind | RunningChain = ChainKind.EMBEDDED
    first_port: int = 0
    stays: bool = False
    rotation: Rotation = Rotation.STICKY

    @property
    def names(self) -> tuple[NodeName, ...]:
        """The names of the nodes."""
        return tuple(NodeName(f"node{number}") for number in range(1, self.node_count + 1))

    @property
    def members(self) -> dict[NodeName, Party]:
        """The party of each node."""
        return {name: Party(f"{person}@{name}") for name, person in zip(self.names, PEOPLE, strict=False)}

    @property
    def threshold(self) -> int:
        """The number of endorsers in the group that must sign: a majority, 2 of 3."""
        return self.node_count // 2 + 1

    @property
    def sequencing(self) -> dict[str, object]:
        """The group's sequencing terms: none, or strict rotation with ranges so short that several begin in a run."""
        is_strict = self.rotation is Rotation.STRICT
        return {"rotation": Rotation.STRICT.value, "rangeSize": STRICT_RANGE_SIZE} if is_strict else {}

    @property
    def interval_ms(self) -> int:
        """The time between two transfers."""
        return max(1, round(1_000 / self.rate_per_s))

    def transfer(self, number: int, name: NodeName) -> Transfer:
        """The network's transfer with this number, which this node's user requests."""
        chance = random.Random(f"{self.seed}/{number}")
        payee = chance.choice([party for node, party in self.members.items() if node != name])
        return Transfer(number, chance.choice(list(Asset)), self.members[name], payee, chance.randint(1, AMOUNT_MAX))
