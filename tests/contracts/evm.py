"""A chain of one EVM for tests of contracts: deploy, send, read logs, gas and errors.

State lasts from one transaction to the next. Transient storage is cleared between them, as a chain does.
Storage slots stay warm, which a chain does not do: gas is measured with `rota.bench.gas`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import sha3
from eth_abi.abi import decode, encode
from pyrevm import EVM, BlockEnv, CfgEnv, Env

from rota.ledger.artifacts import Artifact, artifact_from_json, load_artifact
from rota.model.types import ContractAddress

CHAIN_ID: Final = 1337
TIME_S: Final = 1_000_000
GAS_LIMIT: Final = 30_000_000
ALICE: Final = ContractAddress("0x" + "a1" * 20)
BOB: Final = ContractAddress("0x" + "b0" * 20)

_OUTPUT: Final = re.compile("output: 0x([0-9a-f]*)")
_TEST_ARTIFACTS: Final = Path(__file__).parent / "artifacts"
_SHIPPED: Final = (
    *(
        "Endorsed",
        "Lockable",
        "Carried",
        "Proved",
        "Nullified",
        "ProvedKyc",
        "ProvedLocks",
        "NullifiedKyc",
        "Factory",
        "Registry",
        "Settlement",
        "Epochs",
        "Proposals",
        "PoseidonTree",
        "TokenGuard",
    ),
    *("VerifierAnonKyc2x2", "VerifierAnonNullifierKyc2x2"),
    *("VerifierAnon2x2", "VerifierAnon10x8", "VerifierAnonNullifier2x2", "VerifierAnonNullifier5x8"),
)


class Reverted(Exception):
    """A transaction failed: with an error of our contracts, or out of gas, or for no stated reason."""

    def __init__(self, name: str, arguments: tuple[Any, ...] = ()) -> None:
        super().__init__(f"{name}{arguments}")
        self.name = name
        self.arguments = arguments


@dataclass(frozen=True, slots=True)
class Event:
    """A log, decoded as far as its topics and bytes."""

    address: ContractAddress
    topics: tuple[bytes, ...]
    content: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """What a transaction returned, logged and used."""

    output: bytes
    events: tuple[Event, ...]
    gas: int


def artifact(name: str) -> Artifact:
    """A shipped contract, or one of those for tests."""
    if name in _SHIPPED:
        return load_artifact(name)
    return artifact_from_json((_TEST_ARTIFACTS / f"{name}.json").read_text(encoding="utf-8"))


def keccak(content: bytes) -> bytes:
    digest: bytes = sha3.keccak_256(content).digest()
    return digest


def signature_of(entry: dict[str, Any]) -> str:
    """A function, event or error as it is hashed: `name(type,...)`."""
    return f"{entry['name']}({','.join(_type_of(each) for each in entry['inputs'])})"


def _type_of(parameter: dict[str, Any]) -> str:
    if not parameter["type"].startswith("tuple"):
        return str(parameter["type"])
    inner = ",".join(_type_of(each) for each in parameter["components"])
    return f"({inner}){parameter['type'].removeprefix('tuple')}"


def call_data(contract: str, function: str, *arguments: object) -> bytes:
    """The call of a function, by its name or, where that is overloaded, its whole signature."""
    found = [e for e in artifact(contract).abi if e["type"] == "function" and function in (e["name"], signature_of(e))]
    assert len(found) == 1, f"{contract} has {len(found)} functions {function}"
    types = [_type_of(each) for each in found[0]["inputs"]]
    return keccak(signature_of(found[0]).encode())[:4] + encode(types, arguments)


@dataclass(slots=True)
class Chain:
    """One EVM with a clock."""

    time_s: int = TIME_S
    height: int = 1
    chain_id: int = CHAIN_ID
    evm: EVM = field(init=False)

    def __post_init__(self) -> None:
        self.evm = EVM(env=Env(cfg=CfgEnv(chain_id=self.chain_id)), gas_limit=GAS_LIMIT)
        self.evm.set_block_env(BlockEnv(timestamp=self.time_s, number=self.height))

    def deploy(self, name: str, *arguments: object, sender: ContractAddress = ALICE) -> ContractAddress:
        """Deploy a contract with its constructor's arguments."""
        found = artifact(name)
        types = [_type_of(i) for entry in found.abi if entry["type"] == "constructor" for i in entry["inputs"]]
        try:
            address = self.evm.deploy(sender, found.bytecode + encode(types, arguments))
        except RuntimeError as error:
            raise _reverted(str(error)) from None
        return ContractAddress(address.lower())

    def send(self, to: ContractAddress, data: bytes, sender: ContractAddress = ALICE, gas: int = GAS_LIMIT) -> Answer:
        """Send a transaction; `Reverted` when it fails."""
        self.evm.set_block_env(BlockEnv(timestamp=self.time_s, number=self.height))
        self.evm.reset_transient_storage()
        try:
            output = self.evm.message_call(sender, to, calldata=data, gas=gas)
        except RuntimeError as error:
            raise _reverted(str(error)) from None
        result = self.evm.result
        assert result is not None
        events = tuple(
            Event(ContractAddress(log.address.lower()), tuple(log.data[0]), log.data[1]) for log in result.logs
        )
        return Answer(output, events, result.gas_used)

    def call(
        self, contract: str, to: ContractAddress, function: str, *arguments: object, sender: ContractAddress = ALICE
    ) -> Any:  # noqa: ANN401 - what an ABI says is known to no type checker
        """Call a function and decode what it returns: a value, several as a tuple, or nothing."""
        answer = self.send(to, call_data(contract, function, *arguments), sender)
        found = next(
            e for e in artifact(contract).abi if e["type"] == "function" and function in (e["name"], signature_of(e))
        )
        values = decode([_type_of(each) for each in found["outputs"]], answer.output)
        return values[0] if len(values) == 1 else values or None


def _errors() -> dict[bytes, dict[str, Any]]:
    names = (*_SHIPPED, "Target", "TestVerifier")
    entries = [entry for name in names for entry in artifact(name).abi if entry["type"] == "error"]
    return {keccak(signature_of(entry).encode())[:4]: entry for entry in entries}


_ERRORS: Final = _errors()


def decode_error(output: bytes) -> Reverted:
    """The error that revert data tells."""
    if output[:4] not in _ERRORS:
        return Reverted("unnamed", (output,))
    entry = _ERRORS[output[:4]]
    values = decode([_type_of(each) for each in entry["inputs"]], output[4:])
    texts = (
        v.rstrip(b"\0").decode() if i["name"] == "field" else v for i, v in zip(entry["inputs"], values, strict=True)
    )
    return Reverted(entry["name"], tuple(texts))


def _reverted(text: str) -> Reverted:
    match = _OUTPUT.search(text)
    if match is None:
        return Reverted("halted", (text,))
    return decode_error(bytes.fromhex(match[1]))
