"""`tools.move`, on a small made-up tree: files, imports, names, documents and settings go along."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.move.__main__ import main
from tools.move.plan import Place, Plan, PlanError, module_at, path_of, read_plan
from tools.move.text import rewrite, rewrite_rows
from tools.move.tree import changes_of

TREE = {
    "src/rota/__init__.py": "",
    "src/rota/types.py": '"""Values."""\n\nLIMIT = 3\n\n\nclass Coin:\n    """A coin."""\n',
    "src/rota/payload/__init__.py": '"""Payload: see src/rota/payload/rounds.py."""\n',
    "src/rota/payload/rounds.py": (
        "from rota.types import LIMIT, Coin\n\n\ndef spend(coin: Coin) -> int:\n    return LIMIT\n"
    ),
    "src/rota/payload/keys/one.bin": "x",
    "src/rota/core/__init__.py": "",
    "src/rota/core/machine.py": """
from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rota.types import Coin

if TYPE_CHECKING:
    from rota.core.node import Node

__all__ = ["Event", "Table", "run"]


class Table:
    pass


# An input.
class Event:
    '''Told to a machine of `rota.core.machine.Table`.'''

    def handle(self, node: Node, table: Table) -> Coin:
        return json.loads("{}")


def run(event: Event) -> None:
    event.handle
""",
    "src/rota/core/node.py": """
from rota import payload, types
from rota.core import machine
from rota.core.machine import Event, run
from rota.payload import rounds


class Node:
    def step(self, payload_: bytes, event: Event) -> object:
        run(event)
        return (payload.__doc__, types.LIMIT, rounds.spend, machine.Event, machine.Table, "rota.types.Coin")
""",
    "tests/test_types.py": """
import rota.types
from rota.types import Coin


def test_coin() -> None:
    # See src/rota/types.py.
    assert rota.types.Coin is Coin
""",
    "tests/sequencer/rows.txt": "# Machine | state | event\nTable | Idle | Event |  | test_types::test_coin::0 |\n",
    "docs/page.md": "See `src/rota/types.py`, `rota.payload.rounds` and rota/payload/. Not rota.typesetting.\n",
    "distributions/node/pyproject.toml": '[project.entry-points."rota.domains"]\ntwo = "rota.payload.rounds:spend"\n',
    "pyproject.toml": """
[project.entry-points."rota.domains"]
one = "rota.payload.rounds:spend"

[tool.setuptools.package-data]
rota = ["py.typed", "payload/keys/*.bin"]

[tool.importlinter]
root_package = "rota"
layers = [
    "(core)",
    "(payload) | (abi)",
    "(types)",
]
""",
}
PLAN = """
[modules]
"rota.types" = "rota.model.types"
"rota.payload" = "rota.calldata"
"tests.test_types" = "tests.model.test_values"

[names]
"rota.core.machine:Event" = "rota.machine.happenings:Happening"

[packages]
"rota.model" = "Values that all share."

[layers]
machine = "below core"
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for path, content in TREE.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content.lstrip("\n"))
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    (tmp_path / "plan.toml").write_text(PLAN)
    return root


def test_move_rewrites_everything_that_refers_to_what_moved(tree: Path) -> None:
    assert main([str(tree.parent / "plan.toml"), "--root", str(tree)]) == 0
    files = [path.relative_to(tree) for path in tree.rglob("*") if path.is_file()]
    paths = {str(path) for path in files if not path.parts[0].startswith(".")}
    assert paths == {
        "src/rota/__init__.py",
        "src/rota/model/__init__.py",
        "src/rota/model/types.py",
        "src/rota/calldata/__init__.py",
        "src/rota/calldata/rounds.py",
        "src/rota/calldata/keys/one.bin",
        "src/rota/core/__init__.py",
        "src/rota/core/machine.py",
        "src/rota/core/node.py",
        "src/rota/machine/__init__.py",
        "src/rota/machine/happenings.py",
        "tests/model/test_values.py",
        "tests/sequencer/rows.txt",
        "docs/page.md",
        "distributions/node/pyproject.toml",
        "pyproject.toml",
    }
    read = {path: (tree / path).read_text() for path in paths if not path.endswith(".bin")}
    assert read["src/rota/model/__init__.py"] == '"""Values that all share."""\n'
    assert read["src/rota/calldata/__init__.py"] == '"""Payload: see src/rota/calldata/rounds.py."""\n'
    assert "from rota.model.types import LIMIT, Coin\n" in read["src/rota/calldata/rounds.py"]
    assert read["docs/page.md"] == (
        "See `src/rota/model/types.py`, `rota.calldata.rounds` and rota/calldata/. Not rota.typesetting.\n"
    )
    assert read["tests/sequencer/rows.txt"].endswith("Table | Idle | Happening |  | test_values::test_coin::0 |\n")
    assert "import rota.model.types\n" in read["tests/model/test_values.py"]
    assert "assert rota.model.types.Coin is Coin" in read["tests/model/test_values.py"]
    assert "# See src/rota/model/types.py." in read["tests/model/test_values.py"]


def test_moved_definition_takes_its_imports_along_and_is_imported_back(tree: Path) -> None:
    main([str(tree.parent / "plan.toml"), "--root", str(tree)])
    moved = (tree / "src/rota/machine/happenings.py").read_text()
    assert "# An input.\nclass Happening:" in moved
    assert "import json\n" in moved
    assert "from rota.core.machine import Table\n" in moved
    assert "from rota.model.types import Coin\n" in moved
    assert "if TYPE_CHECKING:\n    from rota.core.node import Node\n" in moved
    left = (tree / "src/rota/core/machine.py").read_text()
    assert "class Event" not in left
    assert "from rota.machine.happenings import Happening\n" in left
    assert "def run(event: Happening) -> None:" in left
    assert "json" not in left
    assert '__all__ = ["Table", "run"]' in left
    node = (tree / "src/rota/core/node.py").read_text()
    assert "from rota import calldata\n" in node
    shown = "calldata.__doc__, types.LIMIT, rounds.spend, happenings.Happening, machine.Table,"
    assert shown in " ".join(node.split())
    assert "step(self, payload_: bytes, event: Happening)" in node
    assert '"rota.model.types.Coin"' in node


def test_moved_settings(tree: Path) -> None:
    changes = changes_of(tree, read_plan(tree.parent / "plan.toml"))
    project = changes.written["pyproject.toml"]
    assert 'one = "rota.calldata.rounds:spend"' in project
    assert 'two = "rota.calldata.rounds:spend"' in changes.written["distributions/node/pyproject.toml"]
    assert '"calldata/keys/*.bin"' in project
    assert '    "(core)",\n    "(machine)",\n    "(calldata) | (abi)",\n    "(model)",\n' in project


def test_check_changes_nothing(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tree.parent / "plan.toml"), "--root", str(tree), "--check"]) == 0
    told = capsys.readouterr().out
    assert "src/rota/types.py -> src/rota/model/types.py\n" in told
    assert "docs/page.md: rewritten\n" in told
    assert (tree / "src/rota/types.py").read_text() == TREE["src/rota/types.py"]


@pytest.mark.parametrize(
    ("plan", "error"),
    [
        ('[modules]\n"rota.nothing" = "rota.model"', "there is no rota.nothing"),
        ('[modules]\n"rota.types" = "rota.core.node"', "there is one"),
        ('[modules]\n"os.path" = "rota.model"', "os.path is no module of"),
        ('[names]\n"rota.types:Note" = "rota.model:Note"', "rota.types does not define Note"),
        ('[names]\n"rota.types" = "rota.model:Note"', "not of the form"),
        ('[module]\n"rota.types" = "rota.model"', "unknown tables: module"),
        ('[[replace]]\npath = "docs/page.md"\nold = "absent"\nnew = ""', "has no 'absent' to replace"),
    ],
)
def test_plan_that_cannot_be_carried_out_is_refused(tree: Path, plan: str, error: str) -> None:
    path = tree.parent / "plan.toml"
    path.write_text(plan)
    with pytest.raises(PlanError, match=error):
        changes_of(tree, read_plan(path))


def test_name_that_leaves_a_module_that_moves_too_is_imported_from_its_own_place(tree: Path) -> None:
    plan = Plan(
        {"rota.core": "rota.sequencer", "rota.types": "rota.types.coins"},
        {Place("rota.core.machine", "Event"): Place("rota.machine.events", "Event")},
    )
    written = changes_of(tree, plan).written
    node = written["src/rota/sequencer/node.py"]
    assert "from rota.machine.events import Event\n" in node
    assert "from rota.sequencer.machine import run\n" in node
    assert "import rota.types.coins\nfrom rota.types.coins import Coin\n" in written["tests/test_types.py"]


def test_name_that_is_taken_keeps_the_old_one_in_the_importing_module(tree: Path) -> None:
    (tree / "src/rota/user.py").write_text("from rota.core.machine import Event\n\nHappening = Event\n")
    changes = changes_of(tree, read_plan(tree.parent / "plan.toml"))
    assert changes.written["src/rota/user.py"].startswith(
        "from rota.machine.happenings import Happening as Event\n\nHappening = Event\n"
    )


def test_parameter_of_the_same_name_is_not_renamed(tree: Path) -> None:
    (tree / "src/rota/user.py").write_text(
        "from rota import payload\n\n\ndef take(payload):\n    return payload\n\n\nprint(payload)\n"
    )
    changes = changes_of(tree, read_plan(tree.parent / "plan.toml"))
    assert changes.written["src/rota/user.py"] == (
        "from rota import calldata\n\n\ndef take(payload):\n    return payload\n\n\nprint(calldata)\n"
    )


def test_longest_prefix_of_a_dotted_name_decides() -> None:
    plan = Plan(
        {"rota.core": "rota.sequencer", "rota.core.index": "rota.chain.index"},
        {Place("rota.core.index", "Index"): Place("rota.chain.blocks", "BlockIndex")},
    )
    assert rewrite(plan, "rota.core.node, rota.core.index.x, rota.core.index.Index.take") == (
        "rota.sequencer.node, rota.chain.index.x, rota.chain.blocks.BlockIndex.take"
    )
    assert rewrite(plan, "src/rota/core/index.py, src/rota/core/, wrota.core.node") == (
        "src/rota/chain/index.py, src/rota/sequencer/, wrota.core.node"
    )


def test_rows_change_only_where_a_name_does() -> None:
    plan = Plan({}, {Place("rota.a", "Idle"): Place("rota.a", "Resting")})
    assert rewrite_rows(plan, "# Idle\nSender | Idle | X | Idle_guard | test_Idle::Idle::0 | Idle\n") == (
        "# Idle\nSender | Resting | X | Idle_guard | test_Idle::Idle::0 | Idle\n"
    )


def test_path_and_module_are_each_others_inverse() -> None:
    for module, is_package in (("rota.core.node", False), ("rota.core", True), ("tests.core.test_x", False)):
        assert module_at(path_of(module, is_package)) == module
    assert module_at("docs/conf.py") is None
