"""Private transfers of an ERC-20 token in a privacy group, by the number of its holders.

A group of three members holds one token contract. One member transfers to the others and to accounts that hold tokens
already, each transfer on top of the previous one. Measured is the domain's work on one processor, without network,
ledger and store:

assembled  transfers a second that the sender's node assembles, in slots as a coordinator requests them
endorsed   transfers a second that one endorser's node executes again and accepts, in rounds of the same size
both       transfers a second through both in sequence
bytes      sent to each member for a transfer: the bytes of its private states

Half of the transfers run before the measurement, so that one-time work is excluded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import process_time
from typing import Final

import msgspec

from rota.domains.available import Shelf
from rota.evm.groups import pente
from rota.host import (
    Background,
    ContractDefaults,
    Hosted,
    UserCall,
    assemble,
    check,
    deploy,
    genesis_of,
    init,
    open_genesis,
    receipt,
)
from rota.ledger.artifacts import load_artifact
from rota.model.digests import keccak, round_digest
from rota.model.types import ContractAddress, Intent, IntentId, NodeName, Party, RequestId, State, StateId, Transition
from rota.sequencer.effects import AssembleIntents, CheckRound
from rota.sequencer.events import AssemblyFinished
from rota.wire.messages import Snapshot

HOLDER_COUNTS: Final = (10, 100_000)
TRANSFERS_DEFAULT: Final = 2_048
SLOT_SIZE: Final = 64
MINTED_AT_ONCE: Final = 1_000
FIRST_HOLDER: Final = 0x10000
EACH_HOLDS: Final = 10**18
ADDRESS: Final = ContractAddress("0x" + "be" * 20)
MEMBERS: Final = (Party("alice@node1"), Party("bob@node2"), Party("carol@node3"))
SENDER: Final = MEMBERS[0]
SENDER_NODE, ENDORSER_NODE = NodeName("node1"), NodeName("node2")
VERIFIERS: Final = {member: "0x" + keccak(member.encode())[12:].hex() for member in MEMBERS}
VALID_UNTIL_S: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class TransferFigures:
    """The figures with one number of holders."""

    holders: int
    transfers: int
    assembled_per_s: float
    endorsed_per_s: float
    both_per_s: float
    bytes_per_transfer: float


@dataclass(frozen=True, slots=True)
class PenteFigures:
    """The figures with few and with many holders, and their ratios."""

    few: TransferFigures
    many: TransferFigures
    rate_ratio: float
    bytes_ratio: float


def measure_pente(
    transfers: int = TRANSFERS_DEFAULT,
    holder_counts: tuple[int, int] = HOLDER_COUNTS,
    progress: Callable[[str], None] = lambda _: None,
) -> PenteFigures:
    """Measure with few and with many holders."""
    measured = []
    for holders in holder_counts:
        progress(f"private transfers with {holders:,} holders")
        measured.append(_measure(transfers, holders))
    few, many = measured
    rate_ratio, bytes_ratio = many.both_per_s / few.both_per_s, many.bytes_per_transfer / few.bytes_per_transfer
    return PenteFigures(few, many, rate_ratio, bytes_ratio)


def _measure(transfers: int, holders: int) -> TransferFigures:
    bench = _Bench()
    bench.make_token(holders)
    bench.transfer(transfers, holders)
    assembling_s, endorsing_s, sent_bytes = bench.transfer(transfers, holders)
    return TransferFigures(
        holders,
        transfers,
        transfers / assembling_s,
        transfers / endorsing_s,
        transfers / (assembling_s + endorsing_s),
        sent_bytes / transfers,
    )


class _Bench:
    """A sender's node and an endorser's, and a ledger that accepts everything."""

    def __init__(self) -> None:
        domain = pente()
        wanted = {"members": list(MEMBERS), "configuration": {"evmVersion": "cancun"}}
        genesis = genesis_of(domain, deploy(domain, wanted, SENDER), ContractDefaults(chain_id=1337), bytes(32))
        self.sender: Hosted = open_genesis({domain.name: domain}, genesis, ADDRESS, b"s" * 32)
        self.endorser = self.sender.at_another_node()
        self.held = Shelf(self.sender.known)
        self.every: dict[StateId, State] = {}
        self.number = 0
        self.token = ContractAddress("")

    def make_token(self, holders: int) -> None:
        """Deploy the token, and mint to all holders."""
        artifact = load_artifact("PrivateToken")
        code: dict[str, object] = {
            "bytecode": "0x" + artifact.bytecode.hex(),
            "function": _entry("constructor"),
            "input": '["T", "T"]',
        }
        (made,) = self.assemble([("deploy", code)])
        self.endorse((made,))
        told = receipt(self.sender, made, self.every, SENDER_NODE)["receipt"]
        assert isinstance(told, dict), "a deployment tells its contract"
        self.token = ContractAddress(told["contractAddress"])
        for first in range(0, holders, MINTED_AT_ONCE):
            count = min(MINTED_AT_ONCE, holders - first)
            minted = [hex(FIRST_HOLDER + first), hex(count), hex(EACH_HOLDS)]
            self.endorse(self.assemble([("invoke", self._call("mintMany", minted))]))
        self.endorse(self.assemble([("invoke", self._call("mint", [VERIFIERS[SENDER], hex(EACH_HOLDS)]))]))

    def transfer(self, transfers: int, holders: int) -> tuple[float, float, int]:
        """Run transfers; returns the seconds of assembling and of endorsing, and the bytes sent."""
        assembling_s = endorsing_s = 0.0
        sent_bytes = 0
        for first in range(0, transfers, SLOT_SIZE):
            receivers = range(first, min(first + SLOT_SIZE, transfers))
            # Spread over all holders, and so over their storage slots.
            calls = [
                ("invoke", self._call("transfer", [f"0x{FIRST_HOLDER + n * 7_919 % holders:040x}", hex(n + 1)]))
                for n in receivers
            ]
            began_s = process_time()
            transitions = self.assemble(calls)
            assembled_s = process_time()
            self.endorse(transitions)
            endorsing_s += process_time() - assembled_s
            assembling_s += assembled_s - began_s
            sent_bytes += sum(len(state.content or b"") for each in transitions for state in each.outputs)
        return assembling_s, endorsing_s, sent_bytes

    def assemble(self, calls: list[tuple[str, dict[str, object]]]) -> tuple[Transition, ...]:
        """Assemble a slot at the sender's node."""
        intents = tuple(self._intent(function, arguments) for function, arguments in calls)
        request = RequestId(1, self.number)
        order = AssembleIntents(ADDRESS, request, intents, Snapshot(), 1, VALID_UNTIL_S, VALID_UNTIL_S)
        results = assemble(self.sender, order, self.held, SENDER_NODE, Background(self.every.get, VERIFIERS))
        assembled = [each.transition for each in results if isinstance(each, AssemblyFinished) and each.transition]
        assert len(assembled) == len(calls), f"all are assembled, and not {results[-1]}"
        return tuple(assembled)

    def endorse(self, transitions: tuple[Transition, ...]) -> None:
        """Check a round at the endorser's node, and apply it to the ledger."""
        leaves = tuple(each.leaf for each in transitions)
        digest = round_digest(self.sender.separator, leaves, VALID_UNTIL_S)
        senders = (SENDER,) * len(transitions)
        order = CheckRound(ADDRESS, SENDER_NODE, RequestId(1, 1), digest, transitions, senders, VALID_UNTIL_S)
        background = Background(self.every.get, VERIFIERS)
        checked = check(self.endorser, order, self.held, ENDORSER_NODE, background)
        assert not checked.refusals, f"all are endorsed, and not: {checked.refusals}"
        assert not checked.missing, "all states are here"
        for each in transitions:
            for reference in each.inputs:
                self.held.remove(reference)
            for state in each.outputs:
                self.held.put(state)
                self.every[state.id] = state

    def _intent(self, function: str, arguments: dict[str, object]) -> Intent:
        self.number += 1
        started = init(self.sender, UserCall(SENDER, function, arguments))
        return Intent(IntentId(self.number.to_bytes(16, "big")), ADDRESS, SENDER, started.payload)

    def _call(self, name: str, arguments: list[str]) -> dict[str, object]:
        written = msgspec.json.encode(arguments).decode()
        return {"to": self.token, "function": _entry(name), "input": written}


def _entry(name: str) -> str:
    found = next(each for each in load_artifact("PrivateToken").abi if each.get("name", each["type"]) == name)
    return msgspec.json.encode(found).decode()
