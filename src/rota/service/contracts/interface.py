"""Adding contracts to their members' nodes."""

from __future__ import annotations

from typing import Annotated, Any, Final, Protocol

from msgspec import Meta

from rota.model.types import ContractAddress, IntentId
from rota.ports import QuarantineBook
from rota.rpc import errors
from rota.rpc.values import JsonValue

AVAILABLE: Final = "available"
FROM: Final = "from"

QuestionParams = Annotated[Any, Meta(description="Its values, by name or in their order; `from` is the asking party")]


class Contracts(Protocol):
    """Adding contracts to their members' nodes."""

    @property
    def quarantine(self) -> QuarantineBook:
        """The contracts that no run loads."""
        ...

    async def endorser_address(self, deployment: IntentId) -> ContractAddress:
        """Return the address with which this node endorses in the contract that this intent deploys."""
        ...

    async def take_in(self, genesis: bytes, deployment: IntentId) -> ContractAddress:
        """Add the contract to this node. `Rejected` when genesis and chain do not agree."""
        ...


def question_of(method: str, params: JsonValue) -> tuple[str, JsonValue]:
    """Return method and values: as given, or both from the third parameter behind a qualifier of states."""
    if method in ("", AVAILABLE) and isinstance(params, dict) and isinstance(params.get("method"), str):
        return str(params["method"]), params.get("params")
    return method, params


def parts_of(params: JsonValue) -> tuple[str | None, JsonValue]:
    """Return the asking party, if named, and the values: an object, alone or in a list, or a list in their order."""
    if isinstance(params, list) and len(params) == 1 and isinstance(params[0], dict):
        params = params[0]
    if not isinstance(params, dict) or FROM not in params:
        return None, params
    named = params[FROM]
    if not isinstance(named, str):
        raise errors.invalid("params.from", "must be the name of a party")
    return named, {name: value for name, value in params.items() if name != FROM}


class DomainQuestions(Protocol):
    """Queries to the domains of private contracts."""

    async def ask(self, contract: ContractAddress, method: str, params: JsonValue) -> JsonValue:
        """Ask the domain of a contract. `Rejected` lists the methods that it has."""
        ...


class HasQuestions(Protocol):
    """A node whose domains can be queried."""

    @property
    def questions(self) -> DomainQuestions:
        """Its domains' answers."""
        ...
