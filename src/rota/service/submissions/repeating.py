"""Whether a request under a used idempotency key asks for the same as the first request under that key.

Theory of operation. A used key is an error in any case, which names the transaction that has it. A client that
repeats a request because an answer was lost must know whether that transaction is its own: the error states this in
`data.same`, from a digest over the request. If they cannot be compared, the error leaves `same` out and gives the
reason: that is neither a success nor a conflict. The digest covers the kind of transaction, the sender, the contract,
the function with its decoded arguments, the value, the dependencies and the submit mode. It leaves out gas, prices, the
text of the ABI, salts and the key itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from rota.chain.public_transaction import PublicTransaction
from rota.domains.records import Record, fields_of
from rota.engine.contracts import KnownContracts
from rota.model.digests import keccak
from rota.model.genesis import decode_genesis
from rota.model.types import NO_CONTRACT, Intent, IntentId, node_of
from rota.ports import Store, StoredSubmission, Unavailable
from rota.rpc import errors
from rota.rpc.credentials import CALLER
from rota.service.interface import Submission, TransactionType
from rota.service.parties import may_act
from rota.service.public.public import Public
from rota.service.submissions.intents import Intents
from rota.service.submissions.reading import Submitting


@dataclass(frozen=True, slots=True)
class Comparison:
    """Whether two requests ask for the same; `is_same` is None if they cannot be compared, for this `reason`."""

    digest: bytes
    is_same: bool | None
    reason: str = ""


class Repeats:
    """Compare requests at one node."""

    def __init__(
        self, store: Store, submitting: Submitting, intents: Intents, public: Public, contracts: KnownContracts
    ) -> None:
        self._store: Final = store
        self._submitting: Final = submitting
        self._intents: Final = intents
        self._public: Final = public
        self._contracts: Final = contracts

    async def compared(self, submission: Submission, first: IntentId) -> Comparison:
        """Return the digest of the first transaction, and whether this submission asks for the same."""
        known = await self._first(first)
        if known is None:
            return Comparison(b"", None, "the node does not have that transaction any more")
        try:
            return Comparison(known, known == await self._asked(submission))
        except errors.Rejected as flaw:
            # The first request was valid, and this one may equal it: the node or its domains may have changed since.
            found = await self._store.submissions.get(first)
            is_other = found is not None and self._is_plainly_other(submission, found)
            return Comparison(known, False) if is_other else Comparison(known, None, str(flaw))

    async def judged(self, submission: Submission, used: errors.KeyUsed) -> errors.KeyUsed:
        """Return the error with the result of comparing this submission with the transaction that has its key."""
        try:
            comparison = await self.compared(submission, used.intent)
            if comparison.is_same is None:
                return used.not_compared(comparison.reason)
            return used.compared(comparison.is_same, await self._shown(used.intent))
        except Unavailable as trouble:
            return used.not_compared(str(trouble))

    def _is_plainly_other(self, submission: Submission, found: StoredSubmission) -> bool:
        """Whether the two differ in a field that can be read without the domain."""
        try:
            sender = self._submitting.party(submission.sender)
        except errors.Rejected:
            return False
        is_public = submission.type is TransactionType.PUBLIC
        asked = is_public, sender, submission.to, submission.submit_mode, _dependencies(submission)
        first = found.is_public, found.sender, found.to, found.submit_mode, _dependencies(found)
        return asked != first

    async def _shown(self, intent: IntentId) -> dict[str, object]:
        found = await self._store.submissions.get(intent)
        if found is None or not may_act(CALLER.get(), found.sender, node_of(found.sender)):
            return {}
        return {
            "from": found.sender,
            "to": found.to,
            "function": found.function,
            "data": msgspec.json.decode(found.data),
            "value": str(found.value_wei or 0),
        }

    async def _asked(self, submission: Submission) -> bytes:
        read = await self._submitting.read(submission)
        if submission.type is TransactionType.PUBLIC:
            return digest_of_public(await self._public.wanted(read))
        return self._digest_of_private(self._intents.asked(read))

    async def _first(self, intent: IntentId) -> bytes | None:
        stored = await self._store.transaction(intent)
        if stored is not None:
            return self._digest_of_private(stored.intent)
        found = await self._store.public.get(intent)
        return digest_of_public(found) if found is not None else None

    def _digest_of_private(self, intent: Intent) -> bytes:
        if intent.contract == NO_CONTRACT:
            return _digest(intent, "deployment", self._asked_in_genesis(intent.payload))
        function, values, *binding = msgspec.json.decode(intent.payload, type=list[object])
        hosted = self._contracts.hosted(intent.contract)
        kind = hosted.domain.functions.get(str(function)) if hosted is not None else None
        return _digest(intent, intent.submit_mode.value, [function, _essential(kind, values), *binding])

    def _asked_in_genesis(self, payload: bytes) -> list[object]:
        genesis = decode_genesis(payload)
        domain = self._contracts.domain_named(genesis.domain)
        configuration = msgspec.json.decode(genesis.configuration)
        return [
            genesis.domain,
            _essential(domain.configuration if domain is not None else None, configuration),
            list(genesis.members),
            [genesis.mode.value, genesis.rotation.value, genesis.range_size, genesis.threshold],
        ]


def digest_of_public(transaction: PublicTransaction) -> bytes:
    """Return the digest of a public transaction: sender, receiver, call data, value, dependencies."""
    written = [
        "public",
        transaction.sender,
        transaction.to,
        transaction.data.hex(),
        str(transaction.value_wei),
        _dependencies(transaction),
    ]
    return keccak(msgspec.json.encode(written))


def _digest(intent: Intent, kind: str, asked: Sequence[object]) -> bytes:
    depends_on = _dependencies(intent)
    return keccak(msgspec.json.encode([kind, intent.sender, intent.contract, depends_on, *asked]))


def _dependencies(asked: Submission | StoredSubmission | Intent | PublicTransaction) -> list[str]:
    """Return the dependencies sorted and without repetitions or time bounds: all have to succeed first."""
    leaves = {f"{each.contract}/{each.intent.hex()}/{each.leaf.hex()}" for each in asked.awaits}
    return sorted({each.hex() for each in asked.depends_on} | leaves)


def _essential(kind: type[Record] | None, values: object) -> object:
    """Return a record's values without its incidental fields."""
    if kind is None or not isinstance(values, list):
        return values
    fields = fields_of(kind)
    return [value for field, value in zip(fields, values, strict=False) if field.name not in kind.incidental]
