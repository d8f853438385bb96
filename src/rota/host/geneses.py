"""The genesis of a new contract: the plan of its domain, and the terms of sequencing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rota.domains.base import AttestationPlan, Deployment, Rejected
from rota.domains.records import packed
from rota.host.contracts import AnyDomain
from rota.model.genesis import Genesis
from rota.model.types import NOTHING_CHOSEN, RANGE_SIZE_MAX, Mode, Rotation, SequencingChoice

# The field with a deployment's terms of sequencing in users' requests and in errors.
SEQUENCING: Final = "sequencing"


@dataclass(frozen=True, slots=True)
class ContractDefaults:
    """The defaults of a node's configuration for contracts that it creates (protocol §2)."""

    chain_id: int
    rotation: Rotation = Rotation.STICKY
    range_size: int = 100
    virtual_nodes: int = 1024


def genesis_of(
    domain: AnyDomain,
    deployment: Deployment[Any],
    defaults: ContractDefaults,
    salt: bytes,
    ledger: bytes = b"",
    wanted: SequencingChoice = NOTHING_CHOSEN,
) -> Genesis:
    """The genesis of a contract to be deployed; `salt` is 32 random bytes.

    `ledger` is the hash of its ledger's code, where transitions are proved. `wanted` are the terms of sequencing that
    the deployment asks for; `Rejected` names one that is not possible.
    """
    plan = _plan_of(domain, deployment, wanted)
    configuration = msgspec.json.encode(packed(deployment.configuration))
    try:
        return Genesis(
            domain=domain.name,
            configuration=configuration,
            members=deployment.members,
            committee=plan.committee,
            endorsers=plan.endorser_nodes,
            threshold=plan.threshold,
            mode=plan.mode,
            rotation=wanted.rotation or defaults.rotation,
            range_size=wanted.range_size or defaults.range_size,
            virtual_nodes=defaults.virtual_nodes,
            chain_id=defaults.chain_id,
            salt=salt,
            ledger=ledger,
        )
    except ValueError as error:
        field, _, message = str(error).partition(": ")
        raise Rejected(field, message) from None


def _plan_of(domain: AnyDomain, deployment: Deployment[Any], wanted: SequencingChoice) -> AttestationPlan:
    """The plan with the requested mode. Only nodes that take turns have a rotation and ranges."""
    plans = {plan.mode: plan for plan in (deployment.plan, *deployment.alternatives)}
    plan = plans.get(wanted.mode or deployment.plan.mode)
    if plan is None:
        allowed = " or ".join(mode.value for mode in plans)
        raise Rejected(f"{SEQUENCING}.mode", f"must be {allowed} in the domain {domain.name}")
    if wanted.range_size is not None and not 1 <= wanted.range_size <= RANGE_SIZE_MAX:
        raise Rejected(f"{SEQUENCING}.rangeSize", f"must be from 1 to {RANGE_SIZE_MAX} blocks")
    given = {"rotation": wanted.rotation, "rangeSize": wanted.range_size}
    refused = next((name for name, value in given.items() if value is not None), None)
    if plan.mode is not Mode.RING and refused is not None:
        raise Rejected(
            f"{SEQUENCING}.{refused}",
            f"must be left out: coordinators take turns in the mode ring, and this contract of {domain.name} has the "
            f"mode {plan.mode.value}",
        )
    return plan
