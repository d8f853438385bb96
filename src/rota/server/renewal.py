"""A node renews its own certificate where the Registry is a contract, 30 days before it expires.

The steps are those of `rota keys rotate-certificate` (`keys.transport_files.next_step`): create the next one, announce
it, use it, and drop the old one when every peer has had time to see the new one. Each step follows from the files in
the folder and the Registry's entry, so that an interrupted renewal, also by the end of the node, continues at the next
check, and so does an operator's own rotation. The registrar pays. A failure is logged once and retried at the next
check; meanwhile operators are warned (`service/registry/expiry.py`). If the registry is a file, operators renew
certificates themselves.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from rota.keys.files import KeyFileError
from rota.keys.transport_files import NO_FINGERPRINT, Registered, Step, TransportFolder, next_step
from rota.ledger.account import Account, TransactionRejected
from rota.ledger.registering import announce, look_up, require_owner, rotate
from rota.logs import catalogue
from rota.model.types import ContractAddress
from rota.ports import Unavailable

FIRST_LOOK_S: Final = 60
LOOK_S: Final = 3_600
STEPS_MAX: Final = 4


class Renewal:
    """Renews the certificate of one node. For `overlap_s` the new one is used before the old one is dropped."""

    def __init__(
        self,
        folder: TransportFolder,
        account: Account,
        registry: ContractAddress,
        overlap_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder: Final = folder
        self._account: Final = account
        self._registry: Final = registry
        self._overlap_s: Final = overlap_s
        self._clock: Final = clock
        self._told = ""

    async def run(self) -> None:
        """Check until cancelled."""
        await asyncio.sleep(FIRST_LOOK_S)
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> tuple[Step, ...]:
        """Take the due steps, at most `STEPS_MAX`, and return them. A failure is logged and ends the check."""
        taken: list[Step] = []
        try:
            while len(taken) < STEPS_MAX and (step := await self._due()) not in (Step.NOTHING, Step.REGISTER):
                await self._take(step)
                taken.append(step)
                catalogue.CERTIFICATE_RENEWED.log(step=step.value)
            self._told = ""
        except (TransactionRejected, Unavailable, KeyFileError, ValueError, OSError) as error:
            if str(error) != self._told:
                catalogue.CERTIFICATE_RENEWAL_FAILED.log(reason=str(error))
            self._told = str(error)
        return tuple(taken)

    async def _due(self) -> Step:
        found = await look_up(self._account, self._registry, self._folder.node)
        registered = Registered()
        if found is not None:
            registered = Registered(found.current_fingerprint, found.next_fingerprint or NO_FINGERPRINT)
        following = self._folder.next()
        step = next_step(
            self._folder.current().certificate,
            following.certificate if following is not None else None,
            registered,
            int(self._clock()),
        )
        if found is not None and step in (Step.PREPARE, Step.ANNOUNCE, Step.ROTATE):
            require_owner(self._account, self._folder.node, found)
        return step

    async def _take(self, step: Step) -> None:
        if step is Step.PREPARE:
            self._folder.ensure_next(int(self._clock()))
        elif step is Step.ANNOUNCE:
            following = self._folder.next()
            assert following is not None, "what is announced is there"
            await announce(self._account, self._registry, self._folder.node, following.certificate.fingerprint)
        elif step is Step.PROMOTE:
            self._folder.promote()
        else:
            assert step is Step.ROTATE, f"{step.value} is no step of a renewal"
            await asyncio.sleep(self._overlap_s)
            await rotate(self._account, self._registry, self._folder.node)
