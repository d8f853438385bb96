"""Making intents of submissions: the domain validates them and they get an id before other nodes see them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Container, Iterable
from typing import Final

from rota import host
from rota.abi import codec
from rota.domains.base import Rejected as DomainRejected
from rota.engine.contracts import KnownContracts
from rota.engine.intent_ids import IntentIds
from rota.host import SEQUENCING
from rota.keys.one_time import OneTimeKeys
from rota.model.digests import INTENT_BYTES
from rota.model.genesis import SALT_BYTES, decode_genesis, encode_genesis
from rota.model.types import NO_CONTRACT, ContractAddress, Intent, IntentId, NodeName, Party, SubmitMode, node_of
from rota.rpc import errors
from rota.service.submissions.reading import Read, Submitting, function_name, named_data


class Intents:
    """Make the intents of one node. `registered` returns the registered nodes."""

    def __init__(
        self,
        node: NodeName,
        contracts: KnownContracts,
        factory: ContractAddress | None,
        defaults: host.ContractDefaults,
        registered: Callable[[], Container[NodeName]],
        submitting: Submitting,
        one_time_keys: OneTimeKeys,
    ) -> None:
        self._node: Final = node
        self._contracts: Final = contracts
        self._factory: Final = factory
        self._defaults: Final = defaults
        self._registered: Final = registered
        self._submitting: Final = submitting
        self._ids: Final = IntentIds(secrets.token_bytes, one_time_keys)

    def of(self, read: Read) -> Intent:
        """Return the intent of a submission.

        `Rejected` names the parameter that is wrong, as a party of an unknown node.
        """
        intent = self.asked(read)
        is_deployment = intent.contract == NO_CONTRACT
        self._require_registered(decode_genesis(intent.payload).members if is_deployment else intent.parties)
        return intent

    def asked(self, read: Read) -> Intent:
        """The same without the check that the parties' nodes are registered, or still are."""
        submission = read.submission
        if submission.to is None:
            return self._deployment_of(read)
        hosted = self._contracts.hosted(submission.to)
        if hosted is None:
            reason = self._contracts.unhosted.get(submission.to, f"must be a contract of {self._node}")
            raise errors.invalid("to", reason)
        if submission.domain and submission.domain != hosted.domain.name:
            raise errors.invalid("domain", f"must be {hosted.domain.name}, not {submission.domain}")
        sender = self._submitting.party(submission.sender)
        parameters = read.function.inputs if read.function is not None else ()
        call = host.UserCall(sender, function_name(read), named_data(read, parameters), submission.submit_mode)
        try:
            initialised = host.init(hosted, call)
        except DomainRejected as flaw:
            is_sender = flaw.field == "from" and not hasattr(hosted.domain.functions.get(call.function), "from_")
            raise errors.invalid("from" if is_sender else _field_of(flaw), flaw.message) from None
        submit_mode = submission.submit_mode
        if hosted.carrier is not None:
            if submit_mode is not SubmitMode.AUTO:
                text = f"must be auto: {hosted.carrier.decider} decides about each transaction, and carries it out"
                raise errors.invalid("submitMode", text)
            submit_mode = SubmitMode.CARRIED
        draw = self._ids.one_time if hosted.domain.ledgers else self._ids.next
        drawn = draw(sender, submission.to)
        return Intent(
            drawn.id,
            submission.to,
            sender,
            initialised.payload,
            submission.depends_on,
            initialised.parties,
            submit_mode=submit_mode,
            nonce=drawn.nonce,
            awaits=submission.awaits,
        )

    def _deployment_of(self, read: Read) -> Intent:
        """Return the intent of a deployment. `Rejected` names the parameter that is wrong."""
        submission = read.submission
        if self._factory is None:
            raise errors.invalid("to", f"must be a contract's address: {self._node} has no ledger.factory to deploy by")
        if submission.submit_mode is not SubmitMode.AUTO:
            raise errors.invalid("submitMode", "must be auto: a deployment cannot be prepared")
        sender = self._submitting.party(submission.sender)
        data = named_data(read, codec.find_constructor(read.entries).inputs)
        salt = secrets.token_bytes(SALT_BYTES)
        try:
            genesis = self._contracts.plan(submission.domain, data, sender, self._defaults, salt, submission.sequencing)
        except DomainRejected as flaw:
            raise errors.invalid(_field_of(flaw), flaw.message) from None
        # Without a page: which deployments a party made is private.
        return Intent(
            IntentId(secrets.token_bytes(INTENT_BYTES)),
            NO_CONTRACT,
            sender,
            encode_genesis(genesis),
            submission.depends_on,
            awaits=submission.awaits,
        )

    def _require_registered(self, parties: Iterable[Party]) -> None:
        """Require parties of registered nodes. A node that is away is waited for; an unknown one would never come."""
        known = self._registered()
        strangers = [party for party in parties if node_of(party) not in known]
        # If the registry does not name this node either, it has not been read yet.
        if strangers and self._node in known:
            raise errors.invalid("data", f"must name parties of registered nodes, and {strangers[0]} is of none")


def _field_of(flaw: DomainRejected) -> str:
    """Return the field as the user knows it: a domain's arguments are the user's `data`."""
    if flaw.field in ("", "function", "domain") or flaw.field.startswith(f"{SEQUENCING}."):
        return flaw.field or "data"
    return f"data.{flaw.field}"
