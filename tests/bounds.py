"""How long tests wait before they call it a failure.

These bounds end tests that hang. They do not judge speed: a machine that runs many other processes takes twenty
times as long as an idle one, and a test that ran out of time there would fail correct code.
"""

from __future__ import annotations

from typing import Final

# One condition, or one process.
WAIT_S: Final = 300
# A whole test. Ends before `timeout` in pyproject.toml, which ends the test without closing what it opened.
TEST_TIMEOUT_S: Final = 540
