"""The page of the source documents names what exists, and no page says of something built that it is not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tools.site.staging import pages_of

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "sources.md"
TEST: Final = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
FILE: Final = re.compile(r"`((?:src|tools|tests)/[\w/.]+)`")
ROW: Final = re.compile(r"^\| (?P<what>[^|*]+) \| (?P<kind>built|differs|not built) \| (?P<where>.+) \|$", re.MULTILINE)
# How pages say that something is still to come; `not yet` in other sentences is about states, not about code.
CLAIM: Final = re.compile(
    r"not\s+(?:built|implemented|supported)\s+yet|\|\s*not yet\b|is to be measured", re.IGNORECASE
)
# What is not built: the words before the claim, and names that the code will have when it is.
NOT_BUILT: Final = {
    "the attestation plan belongs to a transaction": r"def attestation_plan|class TransactionPlan",
    "the mark on other plans": r"must_submit|MUST_SUBMIT",
    "the endorser that the attestation plan marks": r"must_submit|MUST_SUBMIT",
    "inputs and reads that are gone": r"def .*input.*gone|void_by_inputs",
    "is followed by": r"(?!)",  # The sentence that explains the mark.
}


def test_sources_page_names_tests_and_files_that_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")
    named = TEST.findall(text)
    assert len(named) > 50
    lost = [f"{file}::{test}" for file, test in named if f"def {test}(" not in _read(file)]
    assert lost == []
    assert [file for file in FILE.findall(text) if not (ROOT / file).exists()] == []


def test_every_requirement_on_the_sources_page_has_a_place_or_a_reason() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = list(ROW.finditer(text))
    lines = [
        line for line in text.splitlines() if line.startswith("| ") and not line.startswith(("| **", "| requirement"))
    ]
    assert len(rows) == len(lines) > 100
    unshown = [row["what"] for row in rows if row["kind"] == "built" and not re.search(r"`|\]\(|§", row["where"])]
    assert unshown == []


def test_no_page_says_that_something_is_not_built_which_is() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "rota").rglob("*.py"))
    unknown, built = [], []
    for page in pages_of(ROOT):
        text = page.read_text(encoding="utf-8")
        for claim in CLAIM.finditer(text):
            before = text[max(0, claim.start() - 300) : claim.start()].replace("\n", " ")
            known = [each for each in NOT_BUILT if each in re.sub(r"\s+", " ", before)]
            place = f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, claim.start()) + 1}"
            if not known:
                unknown.append(place)
            built += [f"{place}: {each}" for each in known if re.search(NOT_BUILT[each], code)]
    assert unknown == [], "say what is not built in NOT_BUILT, with the names that its code will have"
    assert built == [], "it is built: take the sentence away"


def _read(file: str) -> str:
    path = ROOT / file
    return path.read_text(encoding="utf-8") if path.exists() else ""
