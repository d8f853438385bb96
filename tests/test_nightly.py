"""Every test that only runs at night is in the table of CONTRIBUTING.md, with a reason."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| `(tests/\S+\.py)` \| (\S[^|]*) \| (\S[^|]*) \|$", re.MULTILINE)


def test_table_has_a_reason_for_every_file_with_nightly_tests() -> None:
    listed = [name for name, _, _ in ROW.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))]
    marked = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path != Path(__file__) and "mark.nightly" in path.read_text(encoding="utf-8")
    ]
    assert marked
    assert sorted(set(listed)) == marked
