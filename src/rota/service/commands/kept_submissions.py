"""Encoding of a command's submission in bytes, which outlives the process.

It is JSON by the names of the fields, with numbers of any size: a command that was in flight when a node was stopped is
read by the version that is started next.
"""

from __future__ import annotations

import json
from typing import Any

from rota.model.types import (
    NOTHING_CHOSEN,
    AwaitedLeaf,
    ContractAddress,
    IntentId,
    Leaf,
    Mode,
    Rotation,
    SequencingChoice,
    SubmitMode,
)
from rota.service.interface import GasOptions, Submission, TransactionType, WhichPayees


def encode_submission(submission: Submission) -> bytes:
    """Encode a submission without its idempotency key, which is the command's."""
    options = submission.options
    kept: dict[str, object] = {
        "type": submission.type.value,
        "sender": submission.sender,
        "domain": submission.domain,
        "to": submission.to,
        "function": submission.function,
        "data": submission.data,
        "abi": submission.abi,
        "abi_reference": submission.abi_reference.hex(),
        "bytecode": submission.bytecode.hex(),
        "depends_on": [other.hex() for other in submission.depends_on],
        "awaits": [
            [each.contract, each.intent.hex(), each.leaf.hex(), each.valid_until_s] for each in submission.awaits
        ],
        "submit_mode": submission.submit_mode.value,
        "gas": options.gas,
        "value_wei": options.value_wei,
        "fee_max_wei": options.fee_max_wei,
        "tip_wei": options.tip_wei,
        "payees": submission.payees.value,
    }
    if submission.sequencing != NOTHING_CHOSEN:
        kept["sequencing"] = _kept_sequencing(submission.sequencing)
    return json.dumps(kept, separators=(",", ":")).encode()


def decode_submission(content: bytes, key: str) -> Submission:
    """Decode a submission under this idempotency key."""
    kept: dict[str, Any] = json.loads(content)
    return Submission(
        type=TransactionType(kept["type"]),
        sender=kept["sender"],
        domain=kept["domain"],
        to=ContractAddress(kept["to"]) if kept["to"] is not None else None,
        function=kept["function"],
        data=kept["data"],
        abi=tuple(kept["abi"]),
        abi_reference=bytes.fromhex(kept["abi_reference"]),
        bytecode=bytes.fromhex(kept["bytecode"]),
        idempotency_key=key,
        depends_on=tuple(IntentId(bytes.fromhex(other)) for other in kept["depends_on"]),
        submit_mode=SubmitMode(kept["submit_mode"]),
        options=GasOptions(kept["gas"], kept["value_wei"], kept["fee_max_wei"], kept["tip_wei"]),
        # Records from before this option existed may pay any party.
        payees=WhichPayees(kept.get("payees", WhichPayees.ANY.value)),
        awaits=tuple(
            AwaitedLeaf(ContractAddress(contract), IntentId(bytes.fromhex(intent)), Leaf(bytes.fromhex(leaf)), until_s)
            for contract, intent, leaf, until_s in kept.get("awaits", ())
        ),
        sequencing=_read_sequencing(kept.get("sequencing", {})),
    )


def _kept_sequencing(sequencing: SequencingChoice) -> dict[str, object]:
    mode, rotation = sequencing.mode, sequencing.rotation
    return {
        "mode": mode.value if mode is not None else None,
        "rotation": rotation.value if rotation is not None else None,
        "range_size": sequencing.range_size,
    }


def _read_sequencing(kept: dict[str, Any]) -> SequencingChoice:
    mode, rotation = kept.get("mode"), kept.get("rotation")
    return SequencingChoice(
        Mode(mode) if mode is not None else None,
        Rotation(rotation) if rotation is not None else None,
        kept.get("range_size"),
    )
