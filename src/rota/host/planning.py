"""The plan of a transaction: the domain states it, and the parties that it names become attesters.

The sender's node and each endorser ask with the same proposal, so that they get the same plan.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rota.domains.available import Available, Shelf
from rota.domains.base import NO_HISTORY, Assembled, Domain, History, Proposal, Rejected, TransactionPlan, party_of
from rota.domains.contents import Role
from rota.host.contracts import AnyDomain, Hosted
from rota.model.types import (
    COSIGNERS_MAX,
    NO_ATTESTERS,
    REQUIRED_MAX,
    Attesters,
    Intent,
    Mode,
    NodeName,
    Party,
    PartySignature,
    Preparation,
    node_of,
)


def has_plans(domain: AnyDomain) -> bool:
    """Whether its transactions have plans; most domains leave attestation to the contract."""
    return type(domain).plan is not Domain.plan


def attesters_of(hosted: Hosted, proposal: Proposal[Any]) -> Attesters:
    """The attesters that a transition's plan adds. `Rejected` when the plan is not possible in this contract."""
    plan = hosted.domain.plan(_bare(proposal))
    if not isinstance(plan, TransactionPlan):
        raise TypeError(f"a plan must be a TransactionPlan, not {type(plan).__name__}")
    home = node_of(proposal.sender)
    signers = dict.fromkeys(party_of("plan.signers", party, home) for party in plan.signers)
    signers.pop(proposal.sender, None)
    named = [(party, node_of(party_of("plan.endorsers", party, home))) for party in plan.endorsers]
    for party in signers:
        if node_of(party) != home:
            raise Rejected("plan.signers", f"must be parties of {home}, the node of the sender, and {party} is not")
    for party, node in named:
        if node not in hosted.contract.endorsers:
            raise Rejected("plan.endorsers", f"must endorse in the contract, and {party} does not")
    endorsers = dict.fromkeys(node for _, node in named)
    if len(signers) > COSIGNERS_MAX or len(endorsers) > REQUIRED_MAX:
        raise Rejected("plan", f"must add at most {COSIGNERS_MAX} signers and {REQUIRED_MAX} endorsers")
    if (signers or endorsers) and not hosted.contract.threshold:
        raise Rejected("plan", "must be empty, because this contract has no endorsement")
    if plan.submitter is not None:
        _require_submitter(hosted, plan.submitter, home)
    return Attesters(tuple(map(PartySignature, signers)), tuple(endorsers)) if signers or endorsers else NO_ATTESTERS


def proposal_of(
    hosted: Hosted, intent: Intent, outcome: Assembled, preparation: Preparation | None, history: History
) -> Proposal[Any]:
    """An assembled transition, as an endorser will see it."""
    return Proposal(
        contract=hosted.contract,
        configuration=hosted.configuration,
        separator=hosted.separator,
        intent=intent.id,
        sender=intent.sender,
        spends=tuple(map(history.get, outcome.spends)),
        reads=tuple(map(history.get, outcome.reads)),
        makes=(*outcome.makes, *(replace(info, role=Role.INFO) for info in outcome.info)),
        calls=outcome.calls,
        preparation=preparation,
        lock=outcome.lock,
    )


def fewer_than(wanted: Attesters, shown: Attesters) -> str:
    """The names that are wanted and not shown; empty if there are none."""
    shown_parties = {signer.party for signer in shown.signers}
    lacking: list[Party | NodeName] = [each.party for each in wanted.signers if each.party not in shown_parties]
    lacking += [node for node in wanted.endorsers if node not in shown.endorsers]
    return ", ".join(lacking)


def _require_submitter(hosted: Hosted, submitter: Party, home: NodeName) -> None:
    """Check the submitter. The coordinating node submits, so a plan can name it only where that node is fixed."""
    contract = hosted.contract
    if contract.mode is Mode.RING:
        raise Rejected("plan.submitter", "must be left out in ring mode, where the members take turns to submit")
    submits = contract.committee[0] if contract.mode is Mode.STATIC else home
    if node_of(submitter) != submits:
        raise Rejected("plan.submitter", f"must be a party of {submits}, whose node submits, and {submitter} is not")


def _bare(proposal: Proposal[Any]) -> Proposal[Any]:
    """Without the parts that differ from node to node."""
    return replace(proposal, available=lambda: Available(Shelf({})), history=NO_HISTORY, verifiers={}, memory=None)
