"""The contracts as Python sees them: encoding of calls, and decoding of their logs and answers.

Nothing here sends requests. `rota.calldata` encodes and decodes rounds; this module puts them into calls and reads them
from logs. Logs come from a node that may lie: an unreadable one is a `ValueError` that names the field, or is left out
where a stranger could have written it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, Final

from eth_abi.abi import encode as abi_encode

from rota.abi.codec import Entry, explain_revert
from rota.abi.decoding import Undecodable
from rota.abi.decoding import decode as abi_decode
from rota.calldata import (
    PERMITTED_UNTIL_S,
    ROUND_TOPIC,
    SKIPPED_TOPIC,
    FullLeaf,
    Malformed,
    RoundLog,
    SkippedLog,
    decode_round_log,
    decode_skipped_log,
    ended_reference,
)
from rota.ledger.artifacts import load_artifact
from rota.ledger.reading import TOPICS_MAX, Log
from rota.model.blocks import FactoryDeployment, LedgerOutcome, LedgerStatus, Outcomes
from rota.model.digests import domain_separator, keccak
from rota.model.frozen import dataclass
from rota.model.types import Call, ContractAddress, Digest, IntentId, Leaf
from rota.ports import LeafCommitments

# The contracts that Rota calls, whose errors it can decode.
CALLED: Final = (
    *("Endorsed", "NotaryLedger", "Carried", "Proved", "Nullified", "ProvedKyc", "NullifiedKyc", "ProvedLocks"),
    *("Factory", "Registry", "Settlement", "Epochs", "Proposals"),
)
CALL_FAILED: Final = 4
SKIP_TEXTS: Final = {
    1: "intent used",
    2: "a read is not available",
    3: "an input is not available",
    CALL_FAILED: "a call failed",
    5: "the lock has another delegate than presumed, has ended, or has not expired",
}
SEPARATORS_KEPT_MAX: Final = 10_000

_SELECTOR_BYTES: Final = 4
_SHOWN_DIGITS_MAX: Final = 136
_REVERT_SELECTOR: Final = bytes.fromhex("08c379a0")  # Error(string)
_PANIC_SELECTOR: Final = bytes.fromhex("4e487b71")  # Panic(uint256)


# Logs.


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A call on the public ledger for which a contract's transition was skipped; `number` counts from 0."""

    contract: ContractAddress
    leaf: Leaf
    number: int
    call: Call

    @property
    def text(self) -> str:
        """The call's number, the function by its selector, the target, and the gas that it had."""
        selector = f"0x{self.call.data[:_SELECTOR_BYTES].hex()}" if self.call.data else "no data"
        return f"call {self.number} failed: {selector} of {self.call.to} with {self.call.gas} gas"


@dataclass(frozen=True, slots=True)
class BlockOutcomes:
    """The outcomes in a block's logs, the failed calls, and the contracts with unreadable logs, with the reason.

    `commitments` are those of committed transitions, where they have any.
    """

    outcomes: Outcomes
    unreadable: tuple[tuple[ContractAddress, str], ...] = ()
    failed_calls: tuple[FailedCall, ...] = ()
    commitments: tuple[LeafCommitments, ...] = ()


def outcomes_of(logs: Iterable[Log], chain_id: int) -> BlockOutcomes:
    """Return the outcomes in the logs of one block, in chain order.

    A `Skipped` log precedes the `Round` log of its call and has the reason; the mask has the verdict.
    """
    outcomes: list[tuple[ContractAddress, LedgerOutcome]] = []
    unreadable: list[tuple[ContractAddress, str]] = []
    failed: list[FailedCall] = []
    commitments: list[LeafCommitments] = []
    skips: dict[tuple[bytes, ContractAddress], dict[tuple[IntentId, Leaf], SkippedLog]] = {}
    for log in sorted(logs, key=lambda each: each.number):
        told = _read(log, chain_id)
        within = (log.transaction_hash, log.address)
        match told:
            case SkippedLog(intent, leaf):
                skips.setdefault(within, {})[intent, leaf] = told
            case RoundLog():
                reasons = skips.pop(within, {})
                calls = _failed_calls(log, told, reasons)
                failed.extend(calls.values())
                outcomes.extend((log.address, outcome) for outcome in _outcomes(log, told, reasons, calls))
                commitments.extend(_commitments(log.address, told))
            case Malformed(reason):
                text = f"log {log.number} of block {log.height}, {log.address}: {reason}"
                unreadable.append((log.address, text))
            case None:
                pass
    return BlockOutcomes(tuple(outcomes), tuple(unreadable), tuple(failed), tuple(commitments))


def _read(log: Log, chain_id: int) -> RoundLog | SkippedLog | Malformed | None:
    kind = log.topics[0] if log.topics else b""
    if kind == ROUND_TOPIC:
        return decode_round_log(log.topics, log.data, separator_of(chain_id, log.address))
    return decode_skipped_log(log.topics, log.data) if kind == SKIPPED_TOPIC else None


def _commitments(contract: ContractAddress, told: RoundLog) -> Iterable[LeafCommitments]:
    """Return the commitments of committed leaves; a leaf binds them, so no node can report others."""
    committed = {committal.leaf for committal in told.committals if committal.is_committed}
    for entry in told.payload.entries:
        if isinstance(entry, FullLeaf) and entry.info and entry.leaf in committed:
            yield LeafCommitments(contract, entry.leaf, entry.info)


def _failed_calls(log: Log, told: RoundLog, skips: dict[tuple[IntentId, Leaf], SkippedLog]) -> dict[Leaf, FailedCall]:
    """Return the calls that transitions of this round were skipped for; invalid call numbers are ignored."""
    found = {}
    for entry in told.payload.entries:
        skipped = skips.get((entry.intent, entry.leaf)) if isinstance(entry, FullLeaf) else None
        if isinstance(entry, FullLeaf) and skipped is not None and skipped.reason == CALL_FAILED:
            number = skipped.state.output
            if number < len(entry.calls):
                found[entry.leaf] = FailedCall(log.address, entry.leaf, number, entry.calls[number])
    return found


def _outcomes(
    log: Log, told: RoundLog, skips: dict[tuple[IntentId, Leaf], SkippedLog], failed: dict[Leaf, FailedCall]
) -> Iterable[LedgerOutcome]:
    given = (entry for entry in told.payload.entries if isinstance(entry, FullLeaf))
    for entry, committal in zip(given, told.committals, strict=True):
        intent, leaf = committal.intent, committal.leaf
        if committal.is_committed:
            ended = (ended_reference(intent),) if told.payload.valid_until_s == PERMITTED_UNTIL_S else ()
            yield LedgerOutcome(
                intent,
                leaf,
                told.digest,
                LedgerStatus.COMMITTED,
                inputs=entry.inputs + ended,
                transaction=log.transaction_hash,
                transaction_index=log.place,
                log_index=log.number,
            )
        else:
            skipped = _skip(told.digest, intent, leaf, skips.get((intent, leaf)), failed.get(leaf))
            yield replace(skipped, transaction=log.transaction_hash, transaction_index=log.place, log_index=log.number)


def _skip(
    digest: Digest, intent: IntentId, leaf: Leaf, told: SkippedLog | None, failed: FailedCall | None
) -> LedgerOutcome:
    """Return the skip's outcome. Only a failed call counts against the transition; all else is contention."""
    reason = told.reason if told is not None else 0
    text = failed.text if failed is not None else SKIP_TEXTS.get(reason, "skipped")
    return LedgerOutcome(intent, leaf, digest, LedgerStatus.SKIPPED, text, is_contention=reason != CALL_FAILED)


@lru_cache(maxsize=SEPARATORS_KEPT_MAX)
def separator_of(chain_id: int, contract: ContractAddress) -> bytes:
    """Return the domain separator of a contract, cached."""
    return domain_separator(chain_id, contract)


# The factory.


def creation_code(name: str, *arguments: object) -> bytes:
    """Return the data of a transaction without recipient that deploys a contract."""
    artifact = load_artifact(name)
    entry = next((each for each in artifact.abi if each["type"] == "constructor"), None)
    types = [_type(each) for each in entry["inputs"]] if entry is not None else []
    return artifact.bytecode + abi_encode(types, arguments)


def encode_call(name: str, function: str, *arguments: object) -> bytes:
    """Return the call data of a contract's function."""
    entry = _entry(name, "function", function)
    return _selector(entry) + abi_encode([_type(each) for each in entry["inputs"]], arguments)


def decode_result(name: str, function: str, result: bytes) -> tuple[Any, ...]:
    """Decode a function's answer; `ValueError` when it does not have the function's types."""
    types = [_type(each) for each in _entry(name, "function", function)["outputs"]]
    try:
        return tuple(abi_decode(types, result))
    except Undecodable as error:
        raise ValueError(f"{name}.{function}: the answer is not {', '.join(types)}: {error}") from error


def deploy_endorsed(intent: IntentId, genesis: bytes, endorsers: tuple[ContractAddress, ...], threshold: int) -> bytes:
    """Return the factory's call data to deploy a contract whose rounds are signed."""
    return encode_call("Factory", "deployEndorsed", intent, genesis, list(endorsers), threshold)


def deploy_proved(intent: IntentId, genesis: bytes, issuer: ContractAddress, code: bytes, arguments: bytes) -> bytes:
    """Return the factory's call data to deploy a contract whose transitions are proved."""
    return encode_call("Factory", "deployProved", intent, genesis, issuer, code, arguments)


def topic_of(name: str, event: str) -> bytes:
    """Return the first topic of an event."""
    return keccak(_signature(_entry(name, "event", event)).encode())


def read_deployment(log: Log) -> FactoryDeployment:
    """Read a deployment from the factory's log; `ValueError` for any other log."""
    if len(log.topics) != TOPICS_MAX or log.topics[0] not in deployment_topics():
        raise ValueError("topics: not those of an EndorsedDeployed or a ProvedDeployed")
    kind, intent, contract, genesis = log.topics
    endorsers, threshold, ledger = _policy_in(log.data, kind == topic_of("Factory", "ProvedDeployed"))
    return FactoryDeployment(
        IntentId(intent[:16]),
        ContractAddress("0x" + contract[-20:].hex()),
        genesis,
        tuple(ContractAddress(each) for each in endorsers),
        threshold,
        log.transaction_hash,
        log.place,
        log.number,
        ledger,
    )


@lru_cache(maxsize=1)
def deployment_topics() -> tuple[bytes, ...]:
    """Return the first topics of the factory's deployment events."""
    return (topic_of("Factory", "EndorsedDeployed"), topic_of("Factory", "ProvedDeployed"))


def _policy_in(content: bytes, is_proved: bool) -> tuple[tuple[str, ...], int, bytes]:
    """Return endorsers, threshold and ledger; if it is proved, the only endorser is its issuer."""
    try:
        if is_proved:
            issuer, ledger = abi_decode(["address", "bytes32"], content)
            return (issuer,), 0, ledger
        endorsers, threshold = abi_decode(["address[]", "uint256"], content)
        return endorsers, threshold, b""
    except Undecodable as error:
        raise ValueError(f"data: must be endorsers and a threshold, or an issuer and a hash: {error}") from error


# The registry.


@dataclass(frozen=True, slots=True)
class RegisteredNode:
    """The Registry's entry for a node."""

    owner: ContractAddress
    current_fingerprint: bytes
    next_fingerprint: bytes | None
    endpoint: str
    # The latest event about the node, if read from one; for display only.
    event: Log | None = field(default=None, compare=False)


def look_up_node(name: str) -> bytes:
    """Return the call data that looks up a node in the Registry."""
    return encode_call("Registry", "nodeOf", name)


def read_node(result: bytes) -> RegisteredNode | None:
    """Decode the Registry's answer; None when the name is not registered."""
    ((owner, current, following, endpoint),) = decode_result("Registry", "nodeOf", result)
    if not int(owner, 16):
        return None
    return RegisteredNode(ContractAddress(owner), current, following if any(following) else None, endpoint)


# Errors.


def revert_text(output: bytes) -> str:
    """Return why a call was reverted: the contract's own error with its arguments, a message, or the raw bytes."""
    selector, arguments = output[:_SELECTOR_BYTES], output[_SELECTOR_BYTES:]
    try:
        if selector == _REVERT_SELECTOR:
            return str(abi_decode(["string"], arguments)[0])
        if selector == _PANIC_SELECTOR:
            return f"panic {abi_decode(['uint256'], arguments)[0]:#04x}"
        entry = _errors().get(selector)
        if entry is not None:
            decoded = abi_decode([_type(each) for each in entry["inputs"]], arguments)
            shown = (f"{each['name']} {_shown(value)}" for each, value in zip(entry["inputs"], decoded, strict=True))
            return f"{entry['name']}({', '.join(shown)})"
    except Undecodable:
        pass
    return f"0x{output.hex()[:_SHOWN_DIGITS_MAX]}" if output else "no reason given"


def explain_any(output: bytes, known: Iterable[Entry] = ()) -> str:
    """Do the same for any contract: by its known errors, or else as one of Rota's contracts."""
    told = explain_revert(output, known)
    is_ours = output[:_SELECTOR_BYTES] in _errors() and told.startswith("reverted with ")
    return revert_text(output) if is_ours else told


@lru_cache(maxsize=1)
def _errors() -> dict[bytes, dict[str, Any]]:
    """Return the errors of all contracts that Rota calls, by selector."""
    entries = [each for name in CALLED for each in load_artifact(name).abi]
    return {_selector(each): each for each in entries if each["type"] == "error"}


def _shown(value: object) -> str:
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)


# ABI.


def _entry(name: str, kind: str, wanted: str) -> dict[str, Any]:
    found = [each for each in load_artifact(name).abi if each["type"] == kind and each["name"] == wanted]
    assert len(found) == 1, f"{name} has one {kind} {wanted}, not {len(found)}"
    return found[0]


def _selector(entry: dict[str, Any]) -> bytes:
    return keccak(_signature(entry).encode())[:_SELECTOR_BYTES]


def _signature(entry: dict[str, Any]) -> str:
    return f"{entry['name']}({','.join(_type(each) for each in entry['inputs'])})"


def _type(entry: dict[str, Any]) -> str:
    """Return the canonical type: a structure is the tuple of its members."""
    kind: str = entry["type"]
    if not kind.startswith("tuple"):
        return kind
    return f"({','.join(_type(each) for each in entry['components'])}){kind.removeprefix('tuple')}"
