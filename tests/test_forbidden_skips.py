"""The suite's own rule in `tests/conftest.py`: a skip can be made a failure."""

from pathlib import Path

import pytest

SKIPPING_TESTS = """
    import pytest

    @pytest.mark.skip(reason="no database here")
    def test_marked():
        raise AssertionError

    def test_skips_itself():
        pytest.skip("no network here")

    @pytest.mark.xfail(reason="known", strict=True)
    def test_expected_to_fail():
        raise AssertionError

    def test_passes():
        pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """An empty suite under the same rule as ours."""
    pytester.makeconftest((Path(__file__).parent / "conftest.py").read_text(encoding="utf-8"))
    return pytester


def test_skipped_tests_fail_when_skips_are_forbidden(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_FORBID_SKIPS", "1")
    suite.makepyfile(SKIPPING_TESTS)
    result = suite.runpytest()
    result.assert_outcomes(passed=1, failed=1, errors=1, xfailed=1)
    result.stdout.fnmatch_lines(["*was skipped. Skipped: no database here", "*was skipped. Skipped: no network here"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_skipped_tests_are_only_counted_otherwise(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTA_FORBID_SKIPS", raising=False)
    suite.makepyfile(SKIPPING_TESTS)
    result = suite.runpytest()
    result.assert_outcomes(passed=1, skipped=2, xfailed=1)
    assert result.ret == pytest.ExitCode.OK


def test_module_skipped_at_collection_fails_when_skips_are_forbidden(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_FORBID_SKIPS", "1")
    suite.makepyfile("import pytest\n\npytest.importorskip('no_such_module')")
    result = suite.runpytest()
    result.assert_outcomes(errors=1)
    assert result.ret == pytest.ExitCode.INTERRUPTED
