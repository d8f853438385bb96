"""The check that keeps core pure is itself checked: on code that breaks each rule, it says so."""

from pathlib import Path

import pytest

from tools.purity import IMPURE_MODULES, PURE_PACKAGES, check_module, main


def messages_about(source: Path, module: str, text: str) -> list[str]:
    path = source / module
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return [finding.message for finding in check_module(source, path)]


@pytest.mark.parametrize("name", sorted(IMPURE_MODULES))
def test_pure_module_may_not_import_the_outside_world(tmp_path: Path, name: str) -> None:
    expected = [f"pure code does not import `{name}`"]
    assert messages_about(tmp_path, "node/node.py", f"import {name}\n") == expected
    assert messages_about(tmp_path, "node/node.py", f"from {name} import something\n") == expected


@pytest.mark.parametrize("package", sorted(PURE_PACKAGES))
def test_every_pure_package_is_checked_as_module_and_as_folder(tmp_path: Path, package: str) -> None:
    assert messages_about(tmp_path, f"{package}.py", "import time\n")
    assert messages_about(tmp_path, f"{package}/deep/inside.py", "import time\n")


def test_submodule_of_an_impure_module_is_impure(tmp_path: Path) -> None:
    assert messages_about(tmp_path, "node/node.py", "import os.path\n") == ["pure code does not import `os.path`"]


def test_import_hidden_in_a_function_is_found(tmp_path: Path) -> None:
    text = "def now():\n    import time\n    return time.time()\n"
    assert messages_about(tmp_path, "node/node.py", text) == ["pure code does not import `time`"]


def test_pure_module_may_not_be_asynchronous(tmp_path: Path) -> None:
    text = "async def step(event):\n    await event\n"
    assert messages_about(tmp_path, "domains/noto/domain.py", text) == [
        "pure code has no `async def` (step)",
        "pure code does not `await`",
    ]


@pytest.mark.parametrize("name", ["hash", "open", "print"])
def test_pure_module_may_not_use_builtins_that_touch_the_world(tmp_path: Path, name: str) -> None:
    expected = [f"pure code does not use `{name}`"]
    assert messages_about(tmp_path, "commands/periods.py", f"{name}(1)\n") == expected
    assert messages_about(tmp_path, "commands/periods.py", f"sorted([], key={name})\n") == expected


def test_attribute_that_shares_a_builtin_name_is_fine(tmp_path: Path) -> None:
    text = "class Block:\n    hash: bytes\n\n    def key(self):\n        return self.hash\n"
    assert messages_about(tmp_path, "types.py", text) == []


def test_adapters_may_touch_the_world(tmp_path: Path) -> None:
    text = "import asyncio\n\nasync def run():\n    await asyncio.sleep(0)\n    print(hash(1))\n"
    assert messages_about(tmp_path, "service/run.py", text) == []


@pytest.mark.parametrize("module", ["store/utils.py", "store/row_helpers.py", "common/__init__.py", "manager.py"])
def test_module_name_that_says_nothing_is_refused(tmp_path: Path, module: str) -> None:
    (message,) = messages_about(tmp_path, module, "")
    assert message.endswith("has a name that says nothing")


@pytest.mark.parametrize("name", ["Manager", "PeerManager", "RPCManager", "Utils", "BlockData", "_Common"])
def test_class_name_that_says_nothing_is_refused(tmp_path: Path, name: str) -> None:
    assert messages_about(tmp_path, "store/rows.py", f"class {name}:\n    pass\n") == [
        f"class {name} has a name that says nothing"
    ]


@pytest.mark.parametrize("name", ["Managed", "Metadata", "DataAvailability", "Commons"])
def test_class_name_that_only_contains_such_a_word_is_fine(tmp_path: Path, name: str) -> None:
    assert messages_about(tmp_path, "store/rows.py", f"class {name}:\n    pass\n") == []


def test_check_fails_and_names_the_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    messages_about(tmp_path, "node/node.py", "x = 1\nimport random\n")
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == f"{tmp_path}/node/node.py:2: pure code does not import `random`\n"


def test_check_passes_on_pure_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    messages_about(tmp_path, "node/node.py", "from dataclasses import dataclass\n")
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == ""


def test_check_of_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 2
