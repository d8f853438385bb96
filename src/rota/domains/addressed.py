"""Records for clients that know parties by address: the address in the field, the name in another one beside it.

A record names such fields in `addressed`, `owner` for example. Clients then see the address in `owner` and the name in
`ownerParty`; while the address is not known, both have the name, because a missing party would mean no party.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rota.domains.records import Record, shown
from rota.model.types import Party


def parties_in(record: Record) -> tuple[Party, ...]:
    """The parties in a record that clients know by address."""
    return tuple(getattr(record, name) for name in record.addressed)


def with_addresses(record: Record, addresses: Mapping[Party, str]) -> Record:
    """The record as clients' queries compare it: with the known addresses in place of names."""
    parties = zip(record.addressed, parties_in(record), strict=True)
    changes = {name: addresses.get(party, party) for name, party in parties}
    return replace(record, **changes) if changes else record  # type: ignore[type-var]


def shown_with_addresses(record: Record, addresses: Mapping[Party, str]) -> dict[str, object]:
    """The record as the API shows it to clients."""
    told = shown(record)
    for name, party in zip(record.addressed, parties_in(record), strict=True):
        told |= named(name, party, addresses)
    return told | record.derived()


def named(field: str, party: Party, addresses: Mapping[Party, str]) -> dict[str, object]:
    """One party, in a field of this name and the one beside it."""
    return {field: addresses.get(party, party), f"{field}Party": party}
