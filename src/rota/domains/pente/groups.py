"""Groups as their members' applications see them, read from the genesis of their contracts.

A group is known by its salt, which its creator's node chose: clients use it as the group's id and, where they
name a group by salt and members, as its salt. One that was deployed without a salt is known by that of its genesis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rota.domains.contents import schema_of
from rota.domains.pente.records import NO_SALT, Group
from rota.domains.records import Rejected, unpacked
from rota.model.genesis import Genesis
from rota.model.json_text import NotJson, read_json
from rota.model.types import Party

DOMAIN: Final = "pente"
ENDORSEMENT_TYPE: Final = "group_scoped_identities"
GENESIS_SCHEMA: Final = schema_of(Group).id


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """A group for clients. Configuration and properties are texts by name, as clients write them."""

    id: bytes
    name: str
    members: tuple[Party, ...]
    configuration: dict[str, str]
    properties: dict[str, str]


def group_in(genesis: Genesis) -> DescribedGroup | None:
    """The group of a contract; None when it is of another domain, or of a version that we do not know."""
    if genesis.domain != DOMAIN:
        return None
    try:
        group = unpacked(Group, read_json(genesis.configuration), "configuration")
        properties = read_json(group.properties, dict[str, str]) if group.properties else {}
    except (NotJson, Rejected):
        return None
    configuration = {
        "endorsementType": ENDORSEMENT_TYPE,
        "evmVersion": group.evm_version,
        "externalCallsEnabled": "true" if group.external_calls_enabled else "false",
        "endorsementThreshold": str(genesis.threshold),
        "preparedTransactionsEnabled": "true" if group.prepared_transactions_enabled else "false",
        "externalCallGasMax": str(group.external_call_gas_max),
    }
    salt = group.salt if group.salt != NO_SALT else genesis.salt
    return DescribedGroup(salt, group.name, group.members, configuration, properties)
