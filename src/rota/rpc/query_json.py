"""QueryJSON as a parameter, with the same bounds for every method that takes one."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import Meta

QueryJson: TypeAlias = Annotated[
    dict[str, Any],
    Meta(
        description="What to look for: eq neq like lt lte gt gte in nin null, each a list of {field, value} with `not` "
        "and `caseInsensitive`; `or`; `sort`, a list of fields, with - before or DESC behind them; `limit`"
    ),
]
