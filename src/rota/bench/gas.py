"""The cost of a transition on the chain: the real contracts on a real EVM, by the size of its round.

Gas is deterministic, so that these figures hold on every machine and chain. A figure is the gas of a whole
transaction divided by its transitions: 21,000 for the transaction itself, its call data, the contract's execution
and logs, less refunds; or the floor that call data alone sets (EIP-7623) if that were more.

The contract is in steady state, used by one sender:

- Rounds follow one another until whole pages of intents are used; the figure is the mean. So every page is
  opened once and marked by all further rounds, as often as in reality: a page has 256 intents.
- The first round of a chain spends outputs of the previous round from storage; the mean excludes the very first.
- Every storage slot is cold at the beginning of a transaction, as it is on a chain. The EVM library keeps slots warm
  from one call to the next, so each transaction gets a fresh EVM with the storage words that it accesses.
- All outputs and info are given in full in the payload (`group_hashed` gives only their hash).

Loads: `group`, all n endorsers sign transitions of 2 inputs, 2 outputs and 1 info, each spending the outputs of the
previous one. `notary`, one signature, 1 input and 2 outputs: `chained`, where each spends the change of the previous
one and the other output stays; `unspent`, where both stay and no two inputs are from one word. `mint`, one signature, 1
output that stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import lcm
from typing import Final

from eth_abi.abi import encode
from pyrevm import EVM, AccountInfo, BlockEnv, CfgEnv, Env

from rota.calldata import FullLeaf, Malformed, decode_payload, encode_auth, encode_commit, encode_payload
from rota.keys.secp256k1 import PrivateKey
from rota.ledger.artifacts import load_artifact
from rota.model.digests import core_of, domain_separator, keccak, leaf_of, round_digest
from rota.model.types import ContractAddress, IntentId, State, StateId, Transition

ROUND_SIZES: Final = (1, 2, 5, 10, 20, 50, 100, 200)
GROUP_SIZES: Final = (1, 3, 5, 10)
HASHED_GROUP_SIZE: Final = 3
PAGE_INTENTS: Final = 256
CHAIN_ID: Final = 1337
TIME_S: Final = 1_000_000
VALID_UNTIL_S: Final = TIME_S + 600
GAS_LIMIT: Final = 30_000_000
CALLER: Final = "0x" + "c1" * 20

# Paladin's own contracts, compiled with its settings, measured on Anvil (ledger); its transactions are alone.
PALADIN: Final = {"group": 149_190, "notary": 113_120, "mint": 85_014}

MEANINGS: Final = {
    "group": "signed by so many; 2 inputs, 2 outputs, 1 info; each spends what the one before it made",
    "hashed": "the same with outputs and info given by their hash alone",
    "chained": "a notary's transfer, 1 input, 2 outputs; each spends the change of the one before it",
    "unspent": "the same, but both outputs stay and no two inputs are from one word",
    "mint": "no input, 1 output that stays",
}

TRANSACTION_GAS: Final = 21_000
FLOOR_GAS_PER_TOKEN: Final = 10
TOKENS_PER_NONZERO_BYTE: Final = 4

# The storage slots of the contract's mappings.
UNSPENT_SLOT: Final = 0
USED_SLOT: Final = 1
LOCKS_SLOT: Final = 2
LOCK_WORDS: Final = 3


@dataclass(frozen=True, slots=True)
class GasFigures:
    """Gas per transition, by the size of its round; groups by their own size first."""

    group: dict[int, dict[int, float]]
    group_hashed: dict[int, dict[int, float]]
    notary: dict[str, dict[int, float]]
    mint: dict[int, float]


def measure_gas(
    round_sizes: tuple[int, ...] = ROUND_SIZES,
    group_sizes: tuple[int, ...] = GROUP_SIZES,
    progress: Callable[[str], None] = lambda _: None,
) -> GasFigures:
    """Run every load at every size; `progress` gets the name of each load before it starts."""

    def by_size(name: str, load: Load, endorsers: int, is_body_hashed: bool = False) -> dict[int, float]:
        progress(f"{name}, {endorsers} endorsers")
        return {size: measure_load(load, endorsers, size, is_body_hashed) for size in round_sizes}

    return GasFigures(
        group={size: by_size("group", group_transition, size) for size in group_sizes},
        group_hashed={HASHED_GROUP_SIZE: by_size("group, hashed", group_transition, HASHED_GROUP_SIZE, True)},
        notary={
            "chained": by_size("notary, chained", chained_transfer, 1),
            "unspent": by_size("notary, unspent", unspent_transfer, 1),
        },
        mint=by_size("mint", mint, 1),
    )


def as_json(figures: GasFigures) -> dict[str, object]:
    """The figures with their published names, in whole gas."""

    def whole(by_size: dict[int, float]) -> dict[str, int]:
        return {str(size): round(gas) for size, gas in by_size.items()}

    return {
        "group": {str(count): whole(found) for count, found in figures.group.items()},
        "group_hashed": {str(count): whole(found) for count, found in figures.group_hashed.items()},
        "notary": {name: whole(found) for name, found in figures.notary.items()},
        "mint": whole(figures.mint),
        "paladin": PALADIN,
    }


def rows_of(figures: GasFigures) -> Iterator[tuple[str, dict[int, float], int]]:
    """Each load with its name, its gas by the size of a round, and the gas of Paladin's comparable contract."""
    for count, found in figures.group.items():
        yield f"group {count}", found, PALADIN["group"]
    for count, found in figures.group_hashed.items():
        yield f"hashed {count}", found, PALADIN["group"]
    yield "chained", figures.notary["chained"], PALADIN["notary"]
    yield "unspent", figures.notary["unspent"], PALADIN["notary"]
    yield "mint", figures.mint, PALADIN["mint"]


def measure_load(load: Load, endorsers: int, round_size: int, is_body_hashed: bool = False) -> float:
    """The mean gas of a transition, over rounds of this size that fill whole pages."""
    ledger = MeasuredLedger.with_endorsers(endorsers)
    writer = Writer(ledger.separator)
    ledger.commit(tuple(load(writer) for _ in range(round_size)), is_body_hashed)
    count = lcm(round_size, PAGE_INTENTS) // round_size
    gas = 0
    for _ in range(count):
        writer.start_round()
        gas += ledger.commit(tuple(load(writer) for _ in range(round_size)), is_body_hashed)
    return gas / (count * round_size)


@dataclass(slots=True)
class Writer:
    """Makes transitions of one sender, in order."""

    separator: bytes
    written: int = 0
    before: list[Transition] = field(default_factory=list)
    current: list[Transition] = field(default_factory=list)

    def start_round(self) -> None:
        """Begin a round; the transitions made before it are committed."""
        self.before, self.current = self.current, []

    def write(self, inputs: tuple[StateId, ...], output_count: int, info_count: int = 0) -> Transition:
        """The next transition; its words are hashes, so that they have a typical number of zeros."""
        page, counter = divmod(self.written, PAGE_INTENTS)
        intent = IntentId(keccak(b"page %d" % page)[:15] + bytes((counter,)))
        outputs = tuple(keccak(b"output %d %d" % (self.written, n)) for n in range(output_count))
        info = tuple(keccak(b"info %d %d" % (self.written, n)) for n in range(info_count))
        leaf = leaf_of(core_of(self.separator, intent, inputs=inputs, outputs=outputs, info=info))
        states = tuple(State(StateId(leaf, n), commitment, ()) for n, commitment in enumerate(outputs))
        transition = Transition(intent, leaf, inputs, (), states, info)
        self.written += 1
        self.current.append(transition)
        return transition

    def last(self) -> tuple[StateId, ...]:
        """The outputs of the last transition, in this round or the previous one."""
        last = (self.before + self.current)[-1:]
        return tuple(state.id for transition in last for state in transition.outputs)


Load = Callable[[Writer], Transition]


def group_transition(writer: Writer) -> Transition:
    """2 inputs, 2 outputs, 1 info, chained."""
    return writer.write(writer.last(), 2, 1)


def chained_transfer(writer: Writer) -> Transition:
    """1 input, 2 outputs; the input is the change of the previous one."""
    return writer.write(writer.last()[1:], 2)


def unspent_transfer(writer: Writer) -> Transition:
    """1 input, 2 outputs; the input is an output of the previous round."""
    earlier = writer.before[len(writer.current) : len(writer.current) + 1]
    return writer.write(tuple(transition.outputs[0].id for transition in earlier), 2)


def mint(writer: Writer) -> Transition:
    """No input, 1 output."""
    return writer.write((), 1)


@dataclass(slots=True)
class MeasuredLedger:
    """An `Endorsed` contract whose storage is cold in each transaction, as on a chain."""

    address: str
    code: bytes
    keys: dict[ContractAddress, PrivateKey]
    storage: dict[int, int] = field(default_factory=dict)
    others: dict[str, bytes] = field(default_factory=dict)  # Contracts that it may call, with nothing in storage.

    @classmethod
    def with_endorsers(cls, count: int, contract: str = "Endorsed") -> MeasuredLedger:
        """A new contract for which all endorsers must sign."""
        keys = {address_of(key): key for key in (PrivateKey(keccak(b"endorser %d" % n)) for n in range(count))}
        evm = EVM(env=Env(cfg=CfgEnv(chain_id=CHAIN_ID)), gas_limit=GAS_LIMIT)
        arguments = encode(["address[]", "uint256"], [list(keys), count])
        address = evm.deploy(CALLER, load_artifact(contract).bytecode + arguments)
        code = evm.get_code(address)
        assert code is not None, "what was deployed has code"
        return cls(address, code, keys)

    @property
    def separator(self) -> bytes:
        """The contract's EIP-712 domain."""
        return domain_separator(CHAIN_ID, ContractAddress(self.address.lower()))

    def commit(self, transitions: tuple[Transition, ...], is_body_hashed: bool = False) -> int:
        """Commit a round, every transition of which must succeed; returns its gas."""
        payload = encode_payload(transitions, VALID_UNTIL_S, is_body_hashed)
        digest = round_digest(self.separator, tuple(each.leaf for each in transitions), VALID_UNTIL_S)
        signatures = {address: key.sign_compact(digest) for address, key in self.keys.items()}
        auth = encode_auth(tuple(self.keys), signatures, len(self.keys))
        gas, committed = self.call(payload, encode_commit(payload, auth))
        assert committed == (1 << len(transitions)) - 1, "a transition was skipped; the figures would mean nothing"
        return gas

    def call(
        self,
        payload: bytes,
        call: bytes,
        caller: str = CALLER,
        gas_limit: int = GAS_LIMIT,
        locks: tuple[bytes, ...] = (),
    ) -> tuple[int, int]:
        """Send a transaction with this payload and these locks; returns its gas, and the mask of committed leaves."""
        block = BlockEnv(timestamp=TIME_S, number=1)
        evm = EVM(env=Env(cfg=CfgEnv(chain_id=CHAIN_ID), block=block), gas_limit=GAS_LIMIT)
        for address, code in ((self.address, self.code), *self.others.items()):
            evm.insert_account_info(address, AccountInfo(code=code, nonce=1))
        slots = sorted({*self._slots_of(payload), *(slot for lock in locks for slot in lock_slots(lock))})
        for slot in slots:
            if self.storage.get(slot):
                # Inserting reads the word into the journal, where it would be warm; the revert removes it there.
                checkpoint = evm.snapshot()
                evm.insert_account_storage(self.address, slot, self.storage[slot])
                evm.revert(checkpoint)
        answer = evm.message_call(caller, self.address, calldata=call, gas=gas_limit)
        assert evm.result is not None, "a call has a result"
        gas = max(evm.result.gas_used, floor_gas(call))
        self.storage.update((slot, evm.storage(self.address, slot)) for slot in slots)
        return gas, int.from_bytes(answer[:32], "big")

    def _slots_of(self, payload: bytes) -> Iterator[int]:
        """Every storage slot that the contract may access for the payload."""
        decoded = decode_payload(payload, self.separator)
        assert not isinstance(decoded, Malformed), decoded
        for entry in decoded.entries:
            if isinstance(entry, FullLeaf):
                yield slot_of(b"\0" + entry.intent[:15], USED_SLOT)
                yield slot_of(entry.leaf, UNSPENT_SLOT)
                yield from (slot_of(state.leaf, UNSPENT_SLOT) for state in entry.reads + entry.inputs)
                if entry.lock is not None:
                    yield from lock_slots(entry.lock.lock)


def floor_gas(call: bytes) -> int:
    """The least gas of a transaction with this call data (EIP-7623)."""
    tokens = call.count(0) + TOKENS_PER_NONZERO_BYTE * (len(call) - call.count(0))
    return TRANSACTION_GAS + FLOOR_GAS_PER_TOKEN * tokens


def lock_slots(lock: bytes) -> tuple[int, ...]:
    """The storage slots of a lock's record."""
    first = slot_of(lock, LOCKS_SLOT)
    return tuple(first + number for number in range(LOCK_WORDS))


def slot_of(key: bytes, mapping_slot: int) -> int:
    """The storage slot of a mapping's value for a key."""
    return int.from_bytes(keccak(key.rjust(32, b"\0") + mapping_slot.to_bytes(32, "big")), "big")


def address_of(key: PrivateKey) -> ContractAddress:
    """The account of a key."""
    return ContractAddress("0x" + key.address.hex())
