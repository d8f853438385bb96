"""Reading submissions: resolving ABI, function and data; and the record of a submission as it was made.

A function is given by name, by signature or as one entry of an ABI; data as a list or an object, or as the hex of a
call. A private contract's domain knows its own functions, so it gets the function's name, and named values where an ABI
names them. The submission and its ABI are stored.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, cast

import msgspec

from rota.abi import codec
from rota.abi.codec import Entry, Parameter
from rota.domains.base import party_of
from rota.domains.records import Record, selector_text
from rota.model.digests import keccak
from rota.model.frozen import dataclass
from rota.model.types import ContractAddress, IntentId, NodeName, Party, Rejected, node_of
from rota.ports import KEY_BYTES_MAX, AbiStore, StoredSubmission, SubmissionKey, SubmissionStore
from rota.rpc import errors
from rota.rpc.credentials import held_parties
from rota.service import interface
from rota.service.abis.types import read_abi
from rota.service.interface import AbiEntry, JsonValue, Submission, TransactionType

FEE_MAX_WEI: Final = 2**63 - 1
ABIS_REMEMBERED_MAX: Final = 256

RequireConfirmed = Callable[[ContractAddress], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Read:
    """A submission with its ABI parsed: the entries, and the one that is called, if any."""

    submission: Submission
    entries: tuple[Entry, ...] = ()
    abi_hash: bytes = b""
    function: Entry | None = None


class Submitting:
    """Read and record submissions at one node. `require_confirmed` checks the contract of each."""

    def __init__(
        self, node: NodeName, abis: AbiStore, submissions: SubmissionStore, require_confirmed: RequireConfirmed
    ) -> None:
        self._require_confirmed: Final = require_confirmed
        self._node: Final = node
        self._abis: Final = abis
        self._submissions: Final = submissions
        # Applications send the same few ABIs with every request: each is parsed once, and written once.
        self._read: Final[OrderedDict[bytes, tuple[tuple[Entry, ...], bytes]]] = OrderedDict()
        self._kept: Final[OrderedDict[bytes, None]] = OrderedDict()

    async def read(self, submission: Submission) -> Read:
        """Resolve ABI and function.

        `errors.Rejected` names the field that is wrong. Uses the store only where needed.
        """
        if submission.to is not None:
            await self._require_confirmed(submission.to)
        if submission.abi_reference and not submission.abi:
            stored = await self._abis.get(submission.abi_reference)
            if stored is None:
                raise errors.invalid("abiReference", "must be the hash of an ABI that was stored")
            submission = replace(submission, abi=tuple(msgspec.json.decode(stored.written)))
        entries, abi_hash = self._abi(submission.abi)
        return Read(submission, entries, abi_hash, _function_in(submission, entries))

    def _abi(self, given: Sequence[AbiEntry]) -> tuple[tuple[Entry, ...], bytes]:
        if not given:
            return (), b""
        written = keccak(msgspec.json.encode(given))
        found = self._read.get(written)
        if found is None:
            entries = read_abi(given, "abi")
            found = self._read[written] = entries, codec.hash_of(entries)
            if len(self._read) > ABIS_REMEMBERED_MAX:
                self._read.popitem(last=False)
        return found

    def unwritten(self, read: Read) -> tuple[Entry, ...]:
        """Return the ABI's entries if they have to be written with the submission."""
        return () if read.abi_hash in self._kept else read.entries

    def note_written(self, read: Read) -> None:
        """Record that its ABI is in the store."""
        if read.abi_hash:
            self._kept[read.abi_hash] = None
            if len(self._kept) > ABIS_REMEMBERED_MAX:
                self._kept.popitem(last=False)

    def party(self, text: str, field: str = "from") -> Party:
        """Parse a party of this node, with or without the node's name; `errors.Rejected` for any other text."""
        try:
            party = party_of(field, text, self._node)
        except Rejected as flaw:
            raise errors.invalid(flaw.field, flaw.message) from None
        if node_of(party) != self._node:
            raise errors.invalid(field, f"must be a party of this node, such as alice@{self._node}, not {text!r}")
        return party

    async def is_known(self, intent: IntentId) -> bool:
        """Whether the transaction was submitted to this node."""
        return await self._submissions.get(intent) is not None

    def key_of(self, key: str, sender: str) -> SubmissionKey:
        """Return a request's idempotency key; the sender, if it is not a party of this node, is refused later.

        `errors.Rejected` for a key that is too long: a key that the database rejects would end the run.
        """
        size_bytes = len(key.encode("utf-8", "replace"))
        if size_bytes > KEY_BYTES_MAX:
            raise errors.invalid("idempotencyKey", f"must be at most {KEY_BYTES_MAX} bytes of UTF-8, not {size_bytes}")
        try:
            party = self.party(sender)
        except errors.Rejected:
            party = Party(sender)
        return SubmissionKey(key, party, held_parties() is not None)

    async def require_unused(self, key: SubmissionKey) -> None:
        """Raise `errors.key_used` when a transaction has this key."""
        used = await self._submissions.using(key) if key.text else None
        if used is not None:
            raise errors.key_used(key.text, used)


def noted(read: Read, intent: IntentId, sender: Party, domain: str, function: str) -> StoredSubmission:
    """Return the record of a submission; the store sets the time of acceptance."""
    submission, options = read.submission, read.submission.options
    return StoredSubmission(
        intent,
        0,
        submission.type is TransactionType.PUBLIC,
        submission.submit_mode,
        sender,
        domain,
        submission.to,
        function,
        msgspec.json.encode(submission.data),
        read.abi_hash,
        submission.idempotency_key,
        submission.depends_on,
        options.gas,
        options.value_wei,
        options.fee_max_wei,
        options.tip_wei,
        awaits=submission.awaits,
        key_owner=sender if held_parties() is not None else "",
    )


def shown_function(read: Read, functions: Mapping[str, type[Record]]) -> str:
    """Return the signature of a private function: from the submission's ABI, or from the domain."""
    if read.function is not None:
        return read.function.signature
    name = function_name(read)
    return selector_text(name, functions[name]) if name in functions else name


def function_name(read: Read) -> str:
    """Return the function's name in the domain. `errors.Rejected` when none is given."""
    if read.function is not None:
        return read.function.name
    name = read.submission.function.partition("(")[0].removeprefix("function ").strip()
    if not name:
        raise errors.invalid("function", "must be given, by its name or as an ABI with one function")
    return name


def named_data(read: Read, parameters: Sequence[Parameter]) -> JsonValue:
    """Return the values by name where the ABI has names, since the domain has its own order."""
    given = read.submission.data
    if isinstance(given, str):
        if read.function is None:
            raise errors.invalid("data", "must be a list or an object, or come with an ABI that has its function")
        try:
            return cast(JsonValue, codec.decode_call(read.function, codec.read_hex(given, "data"), "data"))
        except Rejected as flaw:
            raise errors.invalid(flaw.field, flaw.message) from None
    if isinstance(given, list) and len(given) == len(parameters) and all(each.name for each in parameters):
        return {each.name: value for each, value in zip(parameters, given, strict=True)}
    return given


def require_prices(options: interface.GasOptions) -> None:
    """Raise `errors.Rejected` for a gas price or limit that no chain could have."""
    for field, price in (("maxFeePerGas", options.fee_max_wei), ("maxPriorityFeePerGas", options.tip_wei)):
        if price is not None and price > FEE_MAX_WEI:
            raise errors.invalid(field, f"must be at most {FEE_MAX_WEI} wei")
    if options.gas is not None and options.gas > FEE_MAX_WEI:
        raise errors.invalid("gas", f"must be at most {FEE_MAX_WEI}")


def _function_in(submission: Submission, entries: tuple[Entry, ...]) -> Entry | None:
    """Return the function that is called; None for a deployment, bare call data, or if only the domain knows it."""
    if submission.bytecode or (submission.to is None and not submission.function):
        return None
    if not any(entry.kind == "function" for entry in entries):
        return None
    if not submission.function and isinstance(submission.data, str):
        head = codec.read_hex(submission.data, "data")[: codec.SELECTOR_BYTES]
        return next((each for each in entries if each.kind == "function" and each.selector == head), None)
    try:
        return codec.find_function(entries, submission.function, "function")
    except Rejected as flaw:
        raise errors.invalid(flaw.field, flaw.message) from None


def as_abi(entries: Sequence[Entry]) -> tuple[AbiEntry, ...]:
    """Return entries as clients read them."""
    return tuple(cast(AbiEntry, codec.definition_of(entry)) for entry in entries)
