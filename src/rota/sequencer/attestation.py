"""The plan of a transaction: parties and endorsers that attest it besides its contract's k of n (protocol §4.2).

Theory of operation. The chain counts k of n signatures and knows nothing of plans, so that endorsers enforce them. A
plan names parties of the sender's node, which sign leaf and bound as the `from` party does, and endorsers of the
contract. The domain of the sender computes the plan when it assembles; each endorser computes it again from the
transition, and refuses a transition that is shown with fewer. More do no harm.

The endorsers that a plan names *approve* the round first: they judge it like any other and sign a digest that no
contract takes for a signature of the round (`digests.approval_digest`). An honest endorser, named or not, signs a round
only with the approvals of all. So k signatures of which at most k - 1 are liars' never come together without them,
however many are named; if the named ones signed the round itself first, a liar could add its own signature to one
of theirs and leave the others out.

No leaf binds a plan. A coordinator that shows another one has refusals of a transition that the sender did not make
(`digests.refusal_digest`), and ends nothing by them.
"""

from __future__ import annotations

from rota.model.types import COSIGNERS_MAX, NO_ATTESTERS, REQUIRED_MAX, Attesters, Contract, NodeName, Party, node_of
from rota.sequencer.context import Context
from rota.wire.messages import EndorsementRequest, Refusal


def flaw_of_attesters(contract: Contract, sender: Party, attesters: Attesters) -> str:
    """Return why these cannot be added to a transaction of this party, or ""."""
    if attesters == NO_ATTESTERS:
        return ""
    if not contract.threshold:
        return "its plan adds attesters, and this contract has no endorsement"
    parties, endorsers = [signer.party for signer in attesters.signers], attesters.endorsers
    for names, most, what in ((parties, COSIGNERS_MAX, "signers"), (endorsers, REQUIRED_MAX, "endorsers")):
        if len(names) > most or len(set(names)) < len(names):
            return f"its plan must add at most {most} different {what}"
    for party in parties:
        if node_of(party) != node_of(sender) or party == sender:
            return f"its plan adds {party} as a signer, which must be another party of {node_of(sender)}"
    for node in endorsers:
        if node not in contract.endorsers:
            return f"its plan adds {node}, which does not endorse in this contract"
    return ""


def attesters_at(attesters: tuple[Attesters, ...], number: int) -> Attesters:
    """Return the attesters of one transition of a round, by its place; `attesters` is empty where no plan adds any."""
    return attesters[number] if attesters else NO_ATTESTERS


def refusals_of_plan(contract: Contract, node: NodeName, request: EndorsementRequest) -> tuple[Refusal, ...]:
    """Return refusals for the members whose plans, as the request shows them, keep this endorser from signing.

    All of that is the coordinator's responsibility, so these refusals are no judgements of leaves.
    """
    required = request.attesters[0].endorsers if request.attesters else ()
    approved_by = {approval.endorser for approval in request.approvals}
    unapproved = "" if request.asks_approval else ", ".join(each for each in required if each not in approved_by)
    refusals: list[Refusal] = []
    for transition, sender, attesters in zip(request.transitions, request.senders, request.attesters, strict=False):
        reason = flaw_of_attesters(contract, sender, attesters)
        if attesters.endorsers != required:
            reason = reason or "the transactions of a round have one plan"
        if request.asks_approval and node not in attesters.endorsers:
            reason = reason or f"its plan does not name {node}, which is asked to approve it"
        if unapproved:
            reason = reason or f"the round is not approved by {unapproved}"
        if reason:
            refusals.append(Refusal(transition.intent, reason, leaf=transition.leaf))
    return tuple(refusals)


class Unapproved:
    """The senders whose transitions a named endorser has lately not approved in time, at one coordinator.

    For `state_timeout` the unapproved transitions of such a sender lock nothing for others, so that a silent
    endorser keeps no shared state from them. Two such senders do not give way to one another, or they would reset
    each other without end.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.senders: dict[NodeName, int] = {}

    def note(self, sender: NodeName) -> None:
        """Note that a round of this sender has not been approved in time."""
        now_ms = self.context.now_ms
        self.senders = {node: until_ms for node, until_ms in self.senders.items() if until_ms > now_ms}
        self.senders[sender] = self.context.after(self.context.config.state_timeout_ms)

    def has(self, sender: NodeName) -> bool:
        """Whether this sender's transitions give way, and none gives way to them."""
        return self.senders.get(sender, 0) > self.context.now_ms
