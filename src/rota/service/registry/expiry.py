"""Warnings about the end of the node's certificate, long before: peers refuse one that has ended.

The log has a warning once for each of `NOTICES_S`, `/readyz` while the certificate is near its end, and the metrics
have the time of its end always. Where the Registry is a contract the node renews the certificate by itself
(`server/renewal.py`), unless that is switched off or fails; where it is a file, an operator runs
`rota keys rotate-certificate`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from rota.keys.certificates import Certificate
from rota.logs import catalogue

DAY_S: Final = 86_400
NOTICES_S: Final = (30 * DAY_S, 7 * DAY_S, DAY_S, 0)
COMMAND: Final = "rota keys rotate-certificate"
ADVICE: Final = f"`{COMMAND}` makes another without an outage"


class CertificateExpiry:
    """The expiry of the certificate that a node uses."""

    def __init__(self, certificate: Certificate, clock: Callable[[], float] = time.time) -> None:
        self._clock: Final = clock
        self._certificate = certificate
        self._told_s: int | None = None
        self.look(certificate)

    def look(self, certificate: Certificate) -> None:
        """Set the certificate in use; log a warning once for each notice."""
        if certificate.fingerprint != self._certificate.fingerprint:
            self._certificate, self._told_s = certificate, None
        notice_s = min((each for each in NOTICES_S if self.left_s <= each), default=None)
        if notice_s is not None and notice_s != self._told_s:
            catalogue.CERTIFICATE_EXPIRING.log(days=max(0, self.left_s // DAY_S), command=COMMAND)
        self._told_s = notice_s

    @property
    def valid_until_s(self) -> int:
        """The Unix time in seconds after which peers refuse it."""
        return self._certificate.valid_until_s

    @property
    def left_s(self) -> int:
        """The seconds until its end."""
        return self.valid_until_s - int(self._clock())

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the warning for operators; empty while there is time."""
        left_s = self.left_s
        if left_s > NOTICES_S[0]:
            return ()
        when = f"ends in {left_s // DAY_S} days" if left_s > 0 else "has ended: peers refuse this node"
        return (f"the certificate {when}; {ADVICE}",)
