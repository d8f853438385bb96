"""Members of a privacy group with tokens: each computes the same balances from its own disk.

The machine that runs private contracts, and the token's code, are arguments: both belong to adapters.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from rota.domains.pente import Pente
from rota.domains.pente.addresses import deployment_address
from rota.domains.pente.evm import MakeEvm
from rota.host import Background, UserCall, call, learn
from rota.model.types import IntentId, Party, node_of
from rota.testing.simulation import Ended, Scene, Verifiers, Workload

MEMBERS = tuple(Party(f"member@{node}") for node in "ABC")
STRANGER = Party("stranger@D")
OUTSIDE = "0x" + "0e" * 20
TOKENS = 2


class Compiled(Protocol):
    """A compiled contract."""

    @property
    def abi(self) -> Sequence[Mapping[str, Any]]:
        """Its functions, errors and events."""
        ...

    @property
    def bytecode(self) -> bytes:
        """The code that deploys it."""
        ...


class PenteKit(NamedTuple):
    """The members' needs besides the domain: a machine, and a token with `mint`, `transfer` and `balanceOf`."""

    make_evm: MakeEvm
    token: Compiled


@dataclass(slots=True)
class GroupMembers:
    """Members at A, B and C with tokens; D is not a member."""

    kit: PenteKit
    threshold: int = 0
    token_name: str = "Token"
    minted: dict[IntentId, int] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)
    verifiers: Verifiers = field(init=False)

    def __post_init__(self) -> None:
        self.verifiers = Verifiers(Pente(self.kit.make_evm))

    @property
    def holders(self) -> tuple[str, ...]:
        """Every account that may have tokens."""
        return (*(self.verifiers[member] for member in MEMBERS), OUTSIDE)

    def calls(self, scene: Scene) -> Generator[UserCall, IntentId | None, None]:
        """Deploy, mint and transfer tokens at random; some calls are invalid."""
        random, holders = scene.random, self.holders
        self.minted, self.tokens = {}, []
        issuer = MEMBERS[0]
        sender = bytes.fromhex(self.verifiers[issuer][2:])
        while True:
            if len(self.tokens) < TOKENS:
                intent = yield UserCall(issuer, "deploy", deployment_of(self.kit.token, self.token_name, "T"))
                assert intent is not None, "nothing is wrong with this call"
                self.tokens.append("0x" + deployment_address(scene.hosted.separator, intent, sender).hex())
                continue
            member, amount = random.choice(MEMBERS), random.randint(1, 60)
            to = random.choice(self.tokens)
            match random.randint(0, 7):
                case 0 | 1 | 2:
                    intent = yield self._invoke(issuer, to, "mint", self.verifiers[member], amount)
                    if intent is not None:
                        self.minted[intent] = amount
                case 3 | 4 | 5 | 6:
                    yield self._invoke(member, to, "transfer", random.choice(holders), amount)
                case _:
                    yield random.choice(
                        (
                            self._invoke(STRANGER, to, "transfer", holders[0], 1),
                            self._invoke(member, "0x" + "77" * 20, "name"),
                            self._invoke(MEMBERS[1], to, "mint", holders[1], 1),
                        )
                    )

    def must_hold(self, ended: Ended) -> Iterator[str]:
        """Every member computes the same balances from its disk alone, and their total is the amount minted."""
        expected = sum(self.minted.get(intent, 0) for intent in ended.committed)
        for member in MEMBERS:
            found = sum(self.balances(ended, member, each) for each in self.tokens)
            if found != expected:
                yield f"{expected} was minted, and {member} finds {found}"

    def balances(self, ended: Ended, member: Party, to: str) -> int:
        """The total of all holders, computed by a member's node that has nothing but its disk."""
        node = node_of(member)
        holdings, contract = ended.holdings[node], ended.hosted.contract.address
        hosted = ended.hosted.at_another_node()
        background = Background(holdings.written().get, self.verifiers)
        # For the first token the domain learns all states on the disk, for the other one it finds them on demand.
        if to == self.tokens[0]:
            written = holdings.written().items()
            learn(hosted, [state for reference, state in written if holdings.is_on_chain(contract, reference)], node)
        held = holdings.held(contract)
        asked = (UserCall(member, "call", call_of(to, self.kit.token, "balanceOf", holder)) for holder in self.holders)
        answers = [call(hosted, each, held, node, background) for each in asked]
        return sum(int(answer["balance"]) for answer in answers if isinstance(answer, dict))

    def workload(self) -> Workload:
        """The workload for the simulator."""
        configuration = {"evmVersion": "cancun", "endorsementThreshold": str(self.threshold)}
        arguments = {"members": list(MEMBERS), "configuration": configuration}
        return Workload(MEMBERS[0], arguments, self.calls, self.must_hold, node_count=4)

    def _invoke(self, sender: Party, to: str, name: str, *arguments: object) -> UserCall:
        return UserCall(sender, "invoke", call_of(to, self.kit.token, name, *arguments))


def entry_of(compiled: Compiled, name: str) -> Mapping[str, Any]:
    """A function of a contract's ABI, or its constructor."""
    return next(each for each in compiled.abi if each.get("name", each["type"]) == name)


def errors_of(compiled: Compiled) -> str:
    """A contract's ABI as JSON, for decoding its reverts."""
    return json.dumps(list(compiled.abi))


def call_of(to: str, compiled: Compiled, name: str, *arguments: object, gas: int = 0) -> dict[str, object]:
    """The arguments of a call, as clients write them."""
    return {
        "to": to,
        "function": json.dumps(entry_of(compiled, name)),
        "input": json.dumps(list(arguments)),
        "gas": gas,
        "errors": errors_of(compiled),
    }


def deployment_of(compiled: Compiled, *arguments: object) -> dict[str, object]:
    """The arguments of a deployment in a group."""
    return {
        "bytecode": "0x" + compiled.bytecode.hex(),
        "function": json.dumps(entry_of(compiled, "constructor")),
        "input": json.dumps(list(arguments)),
        "errors": errors_of(compiled),
    }
