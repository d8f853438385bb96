"""`service.interface.Consents`: the open questions to this node's operator, and the operator's decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from rota.directory.deployment_events import ProposalDecided
from rota.directory.effects import Proposal
from rota.machine.tables import Event
from rota.model.genesis import decode_genesis, genesis_hash
from rota.model.types import NO_CONTRACT, IntentId, NodeName, Party
from rota.service.interface import ConsentQuestion
from rota.service.run import RunningNode

NAMES_SHOWN_MAX: Final = 16
NAME_CHARACTERS_SHOWN_MAX: Final = 200

Ask = Callable[[Callable[[str], Event]], Awaitable[object]]


class Consents:
    """The consents of one node. `ask` gives its core an event and waits for the reply."""

    def __init__(self, running: RunningNode, ask: Ask) -> None:
        self._running: Final = running
        self._ask: Final = ask

    async def list(self) -> tuple[ConsentQuestion, ...]:
        """Return all open questions, the oldest first."""
        shown = []
        for question in self._questions():
            shown.append(shown_question(question, self._running.name, self._running.config.proposal_ttl_s))
            # A genesis may be large: yield to other tasks after each.
            await asyncio.sleep(0)
        return tuple(shown)

    async def accept(self, proposer: NodeName, deployment: IntentId) -> None:
        """Agree to take part in the contract."""
        await self._ask(lambda reply_to: ProposalDecided(reply_to, proposer, deployment, is_given=True))

    async def refuse(self, proposer: NodeName, deployment: IntentId, reason: str) -> None:
        """Refuse to take part; the proposer receives the reason."""
        await self._ask(lambda reply_to: ProposalDecided(reply_to, proposer, deployment, is_given=False, reason=reason))

    @property
    def open_count(self) -> int:
        """The number of open questions."""
        return len(self._questions())

    def warnings(self) -> tuple[str, ...]:
        """Return the warning about open questions, shown beside readiness."""
        count = self.open_count if self._running.started.is_set() else 0
        if not count:
            return ()
        waiting = "contract waits" if count == 1 else "contracts wait"
        return (f"{count} {waiting} for consent to endorse or coordinate: see `rota consent list`",)

    def _questions(self) -> tuple[Proposal, ...]:
        """Return the open questions. Contracts that the operator has added by hand since are left out as agreed."""
        known = self._running.contracts.known
        every = self._running.engine.core.questions
        return tuple(each for each in every if each.contract is None or known(each.contract) is None)


def shown_question(question: Proposal, node: NodeName, ttl_s: int) -> ConsentQuestion:
    """Return a question as the operator sees it, with the proposer's names made printable."""
    genesis = decode_genesis(question.genesis)
    return ConsentQuestion(
        question.peer,
        question.deployment,
        question.contract,
        genesis.domain,
        node in genesis.endorsers,
        node in genesis.committee,
        tuple(Party(_shown_name(each)) for each in genesis.members[:NAMES_SHOWN_MAX]),
        len(genesis.members),
        tuple(NodeName(_shown_name(each)) for each in genesis.endorsers[:NAMES_SHOWN_MAX]),
        len(genesis.endorsers),
        genesis.threshold,
        genesis_hash(question.genesis),
        question.asked_at_s,
        question.asked_at_s + ttl_s,
        genesis.contract(question.contract or NO_CONTRACT),
    )


def _shown_name(name: str) -> str:
    """Return a name cut to a maximum length, and without characters that could change what a terminal shows."""
    start = name[:NAME_CHARACTERS_SHOWN_MAX]
    shown = "".join(character if character.isprintable() else "?" for character in start)
    return shown if start == name else f"{shown}…"
