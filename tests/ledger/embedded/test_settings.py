"""A chain that could not work is refused with what would be right."""

from typing import Any

import pytest

from rota.ledger.embedded import Settings


@pytest.mark.parametrize(
    ("choices", "flaw"),
    [
        ({"chain_id": 0}, "chain_id is at least 1, not 0"),
        ({"pool_max": -1}, "pool_max is at least 1, not -1"),
        ({"account_count": 11}, "account_count is 0 to 10, not 11"),
        ({"block_time_ms": 0}, "block_time_ms is at least 1, or none for no timer, not 0"),
        ({"blocks_max": 10, "history_max": 10}, "blocks_max is above history_max, 10, not 10"),
        ({"base_fee_wei": -1}, "base_fee_wei, priority_fee_wei and account_balance_wei are not negative"),
    ],
)
def test_a_wrong_choice_is_refused_by_name(choices: dict[str, Any], flaw: str) -> None:
    with pytest.raises(ValueError, match=flaw):
        Settings(**choices)
