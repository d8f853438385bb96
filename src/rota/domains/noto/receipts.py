"""What users are told of a notary token's transaction: its states, who paid whom, its lock, and what was attached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from rota.domains.addressed import named, shown_with_addresses
from rota.domains.available import Known
from rota.domains.base import Settled
from rota.domains.contents import schema_of
from rota.domains.noto.hook_records import NO_HOOKS
from rota.domains.noto.lock_info import lock_info_of
from rota.domains.noto.records import Attached, Coin, Configuration, Lock, Promised, RecordedLock, Released
from rota.domains.records import Record, shown
from rota.model.state_ids import shown_state_id
from rota.model.types import Party

_AMOUNTS: Final = Coin | Lock | RecordedLock


def receipt_of(settled: Settled[Configuration]) -> dict[str, object]:
    """As far as this node may see it; a part that is empty is left out."""
    addresses = settled.addresses
    states = {
        "inputs": _shown(settled.spent, Coin, addresses),
        "lockedInputs": [*_shown(settled.spent, Lock, addresses), *_shown(settled.spent, RecordedLock, addresses)],
        "outputs": _shown(settled.made, Coin, addresses),
        "lockedOutputs": [*_shown(settled.made, Lock, addresses), *_shown(settled.made, RecordedLock, addresses)],
        "preparedOutputs": _shown(settled.told, Promised, addresses),
    }
    told: dict[str, object] = {"states": {name: each for name, each in states.items() if each}}
    transfers = _transfers(settled)
    if transfers:
        told["transfers"] = transfers
    lock = lock_info_of(settled)
    if lock:
        told["lockInfo"] = lock
    attached = [state.record.data for state in settled.told if isinstance(state.record, Attached)]
    if attached:
        told["data"] = "0x" + attached[0].hex()
    hooks = settled.configuration.hooks
    if hooks != NO_HOOKS:
        told["hooks"] = {"publicAddress": hooks.public_address, "privateAddress": hooks.private_address}
    if settled.sender:
        told["sender"] = settled.sender
    return told


def _shown(
    states: Iterable[Known[Record]], record_type: type[Record], addresses: Mapping[Party, str] | None
) -> list[object]:
    schema = "0x" + schema_of(record_type).id.hex()

    def data_of(record: Record) -> dict[str, object]:
        return shown(record) if addresses is None else shown_with_addresses(record, addresses)

    return [
        {
            "id": "0x" + shown_state_id(state.id).hex(),
            "schema": schema,
            "data": {"salt": "0x" + state.salt.hex(), **data_of(state.record)},
        }
        for state in states
        if isinstance(state.record, record_type)
    ]


def _transfers(settled: Settled[Configuration]) -> list[object]:
    """What each party that did not pay has got; what went to nobody was burned."""
    payers = dict.fromkeys(owner for owner, _ in _owned(settled.spent))
    # What a delegate commits spends the record of a lock, and no state.
    payers |= dict.fromkeys(state.record.from_ for state in settled.told if isinstance(state.record, Released))
    payer = next(iter(payers), None) if len(payers) == 1 else None
    if len(payers) > 1:
        return []
    gained: dict[Party, int] = {}
    for owner, amount in _owned(settled.made):
        gained[owner] = gained.get(owner, 0) + amount
    left = sum(amount for _, amount in _owned(settled.spent)) - sum(gained.values())
    kept = gained.pop(payer, 0) if payer is not None else 0
    source = _named("from", payer, settled.addresses) if payer is not None else {}
    found: list[object] = [
        {**source, **_named("to", owner, settled.addresses), "amount": str(amount)}
        for owner, amount in gained.items()
        if amount
    ]
    if payer is not None and left > 0 and settled.is_whole and not gained and kept >= 0:
        found.append({**source, "amount": str(left)})
    return found


def _named(field: str, party: Party, addresses: Mapping[Party, str] | None) -> dict[str, object]:
    return {field: party} if addresses is None else named(field, party, addresses)


def _owned(states: Iterable[Known[Record]]) -> list[tuple[Party, int]]:
    return [(state.record.owner, state.record.amount) for state in states if isinstance(state.record, _AMOUNTS)]
