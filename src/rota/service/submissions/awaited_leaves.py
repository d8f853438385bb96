"""The leaves of other nodes' transactions that a submission depends on (`dependsOn`)."""

from __future__ import annotations

import time
from dataclasses import replace

from rota.model.awaited import with_bounds
from rota.ports import Unavailable
from rota.rpc import errors
from rota.service import interface
from rota.service.run import RunningNode


def bounded(running: RunningNode, submission: interface.Submission) -> interface.Submission:
    """Return the submission with a default time bound, counted from now, for each leaf without one.

    The latest block may be hours old on an idle chain, and the clock of the chain may be ahead of this node's.
    """
    chain_time_s = running.engine.core.chain_time_s if running.started.is_set() else 0
    until_s = max(chain_time_s, int(time.time())) + running.config.dependency_wait_s
    return replace(submission, awaits=with_bounds(submission.awaits, until_s))


def require_followed(running: RunningNode, submission: interface.Submission) -> None:
    """Require leaves of this node's contracts: its index decides the outcome of a leaf and follows only these."""
    for leaf in submission.awaits:
        if running.contracts.known(leaf.contract) is None:
            raise errors.invalid("dependsOn", f"must name a contract of {running.name}, and {leaf.contract} is none")
        if running.arrears.is_behind(leaf.contract):
            text = f"{running.name} has not looked through the earlier rounds of {leaf.contract} yet; try again later"
            raise Unavailable(text)
