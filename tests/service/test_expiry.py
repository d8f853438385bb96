"""A certificate that nears its end is told in time."""

from __future__ import annotations

from dataclasses import replace

import pytest
import structlog.testing

from rota.keys.certificates import Certificate
from rota.model.types import NodeName
from rota.service.registry.expiry import DAY_S, CertificateExpiry

END_S = 1_000 * DAY_S
CERTIFICATE = Certificate(NodeName("node1"), b"der", 0, END_S)


class Calendar:
    def __init__(self, days_left: float) -> None:
        self.days_left = days_left

    def __call__(self) -> float:
        return END_S - self.days_left * DAY_S


def test_each_notice_is_logged_once() -> None:
    calendar = Calendar(365)
    with structlog.testing.capture_logs() as logs:
        expiry = CertificateExpiry(CERTIFICATE, calendar)
        for days in (31, 30, 29, 8, 7, 6, 1, 0.5, -1, -2):
            calendar.days_left = days
            expiry.look(CERTIFICATE)
    assert [(each["log_level"], each["days"]) for each in logs] == [
        ("warning", 30),
        ("warning", 7),
        ("warning", 1),
        ("warning", 0),
    ]


def test_another_certificate_begins_anew() -> None:
    calendar = Calendar(5)
    expiry = CertificateExpiry(CERTIFICATE, calendar)
    later = replace(CERTIFICATE, der=b"another", valid_until_s=END_S + 365 * DAY_S)
    with structlog.testing.capture_logs() as logs:
        expiry.look(later)
    assert (logs, expiry.warnings, expiry.valid_until_s) == ([], (), END_S + 365 * DAY_S)
    calendar.days_left = -364
    with structlog.testing.capture_logs() as logs:
        expiry.look(later)
    assert len(logs) == 1


@pytest.mark.parametrize(
    ("days", "told"),
    [
        (30, "the certificate ends in 30 days; "),
        (0.5, "the certificate ends in 0 days; "),
        (-1, "the certificate has ended: peers refuse this node; "),
    ],
)
def test_operators_are_warned_and_told_what_to_do(days: float, told: str) -> None:
    (warning,) = CertificateExpiry(CERTIFICATE, Calendar(days)).warnings
    assert warning == told + "`rota keys rotate-certificate` makes another without an outage"


def test_nobody_is_warned_while_there_is_time() -> None:
    assert CertificateExpiry(CERTIFICATE, Calendar(31)).warnings == ()
