"""Which tests run which line of some packages, and how long each takes: one traced run, kept by a digest of the files.

Usage, by `tools.mutate` only: python -m tools.mutate.tracing ROOT PACKAGES PART OF OUT TEST...
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from coverage import Coverage

from tools.mutate.operators import Site

# Tests that are quick enough for `make check`.
QUICK = ("-m", "not slow and not chaos")
PYTEST = ("-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-cov", "--tb=no", *QUICK)


@dataclass(frozen=True)
class TestMap:
    """Tests by line, and the lines that run while modules are imported and tests are collected."""

    # pytest must not collect it.
    __test__ = False

    seconds: dict[str, float]
    sizes: dict[str, int]
    tests: dict[str, dict[int, tuple[str, ...]]]
    imported: dict[str, frozenset[int]]

    def tests_of(self, site: Site) -> tuple[str, ...]:
        """Tests that cover a site: those of its module first, then those that cover the fewest lines."""
        lines = self.tests.get(site.module, {})
        found = lines.get(site.line, ())
        if self.is_imported(site):
            # Any test may rest on what an import made.
            found = tuple(self.seconds)
        elif not found:
            # The tracer names one line of an expression that has several.
            span = range(site.first_line, site.last_line + 1)
            found = tuple({test for line in span for test in lines.get(line, ())})
        stem = Path(site.module).stem
        return tuple(
            sorted(found, key=lambda test: (f"/test_{stem}.py" not in test, self.sizes[test], self.seconds[test], test))
        )

    def is_imported(self, site: Site) -> bool:
        """Whether it runs while modules are imported: a swap afterwards comes too late for that."""
        return site.line in self.imported.get(site.module, frozenset())


def read_map(root: Path, packages: tuple[str, ...], tests: tuple[str, ...], jobs: int, cache: Path) -> TestMap:
    """The map from the cache, or from a traced run."""
    name = digest_of(root, (*packages, *tests))
    kept = cache / f"tests-{name}.json"
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        print(
            f"tracing {' '.join(tests)} once, to learn which tests cover which lines of {' '.join(packages)} …",
            flush=True,
        )
        outs = [cache / f"part-{part}-{name}.json" for part in range(jobs)]
        command = [sys.executable, "-m", "tools.mutate.tracing", str(root), ",".join(packages)]
        running = [
            subprocess.Popen([*command, str(part), str(jobs), str(out), *tests], stdout=subprocess.DEVNULL)
            for part, out in enumerate(outs)
        ]
        codes = [each.wait() for each in running]
        if any(codes):
            raise SystemExit(f"{' '.join(packages)}: the tests fail without a mutant; run {' '.join(tests)} first")
        parts = [json.loads(out.read_text()) for out in outs]
        kept.write_text(json.dumps(_merged(parts)))
        for out in outs:
            out.unlink()
    return _loaded(json.loads(kept.read_text()))


def digest_of(root: Path, paths: Iterable[str]) -> str:
    """A digest of the content of files and folders."""
    found = hashlib.sha256()
    for path in paths:
        whole = root / path
        files = [whole] if whole.is_file() else sorted(each for each in whole.rglob("*") if each.is_file())
        for file in files:
            if "__pycache__" not in file.parts:
                found.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes())
    return found.hexdigest()[:16]


def _merged(parts: list[dict[str, dict[str, object]]]) -> dict[str, object]:
    seconds: dict[str, object] = {}
    lines: dict[str, dict[str, list[str]]] = {}
    for part in parts:
        seconds.update(part["seconds"])
        for module, tests_by_line in part["lines"].items():
            assert isinstance(tests_by_line, dict)
            for line, tests in tests_by_line.items():
                lines.setdefault(module, {}).setdefault(line, []).extend(tests)
    return {"seconds": seconds, "lines": lines}


def _loaded(kept: dict[str, dict[str, object]]) -> TestMap:
    seconds = {test: float(str(took)) for test, took in kept["seconds"].items()}
    sizes = dict.fromkeys(seconds, 0)
    tests: dict[str, dict[int, tuple[str, ...]]] = {}
    imported: dict[str, set[int]] = {}
    for module, lines in kept["lines"].items():
        assert isinstance(lines, dict)
        for line, contexts in lines.items():
            if "" in contexts:
                imported.setdefault(module, set()).add(int(line))
            found = tuple(sorted({context for context in contexts if context}))
            tests.setdefault(module, {})[int(line)] = found
            for test in found:
                sizes[test] += 1
    return TestMap(seconds, sizes, tests, {module: frozenset(lines) for module, lines in imported.items()})


class _Tracing:
    """A pytest plugin: every `of`th test, each under a context of its own."""

    def __init__(self, coverage: Coverage, part: int, of: int) -> None:
        self.coverage, self.part, self.of = coverage, part, of
        self.seconds: dict[str, float] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep this process's share."""
        items[:] = items[self.part :: self.of]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Trace one test."""
        self.coverage.switch_context(item.nodeid)
        began_s = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = round(time.process_time() - began_s, 4)
            self.coverage.switch_context("")


def main(arguments: list[str]) -> int:
    """Trace a share of the tests and write what they cover."""
    root, packages, part, of, out, *tests = arguments
    coverage = Coverage(
        data_file=None, source=[str(Path(root) / each) for each in packages.split(",")], config_file=False, branch=False
    )
    coverage.start()
    tracing = _Tracing(coverage, int(part), int(of))
    code = int(
        pytest.main([*PYTEST, "--rootdir", root, *(str(Path(root) / test) for test in tests)], plugins=[tracing])
    )
    coverage.stop()
    data = coverage.get_data()
    lines = {str(Path(file).relative_to(root)): data.contexts_by_lineno(file) for file in sorted(data.measured_files())}
    Path(out).write_text(json.dumps({"seconds": tracing.seconds, "lines": lines}))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
