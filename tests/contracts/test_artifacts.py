"""The artifacts are what the sources say, and have what the rest of Rota takes from them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rota.calldata import ROUND_TOPIC, SKIPPED_TOPIC, encode_commit
from rota.ledger.artifacts import load_artifact
from tests.contracts.evm import call_data, keccak, signature_of
from tools.contracts import DIGEST, FOR_TESTS, ROOT, SHIPPED, SOURCES, digest, main

CODE_BYTES_MAX = 24_576  # EIP-170


def test_artifacts_were_compiled_from_the_sources_that_are_here() -> None:
    assert digest() == (ROOT / DIGEST).read_text(encoding="utf-8").strip(), "run `make contracts`"


# Nodes compare the code of tokens with their own (`ledger/proved_ledgers.py`). With other code they
# would not know the tokens that were deployed before. Other code of `Endorsed` changes the gas of all rounds.
PINNED_CODE = {
    "NotaryLedger": "844bf47dd85df1365cd2829f082cacc29ade4fb0934189b2119e42df84c552ef",
    "Endorsed": "4e33c526781fc71bbdd7d2add4792a87305a2dadff8bd0e11005601c6d0e5073",
    "Proved": "6b843ff831323fa0c70e9428ee8bdf3c291c6e096aed77e4d7ccbb183f44c80a",
    "Nullified": "c51f453375686410d78aa3c0470048f8df2a8b002fa89a42b1ffc4b13e5ddc61",
    "ProvedKyc": "cc45fd7d6b2de60239137bbdee0149bde004e32b39c4b98fdd1ceca2adab4b93",
    "NullifiedKyc": "f89d8a39b2c35e7e595e010bcf52b8f955e53bb92a07e6bf08fbde198dedf27a",
}


@pytest.mark.parametrize("name", list(PINNED_CODE))
def test_code_of_ledgers_is_that_of_earlier_releases(name: str) -> None:
    assert keccak(load_artifact(name).bytecode).hex() == PINNED_CODE[name]


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed here: install Node.js 20 or later")
def test_artifacts_are_what_a_fresh_compile_yields() -> None:
    assert main(["--check"]) == 0


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed here: install Node.js 20 or later")
def test_stale_missing_and_left_over_artifacts_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / SOURCES).mkdir()
    for name in ("package.json", "package-lock.json"):
        shutil.copy(ROOT / SOURCES / name, tmp_path / SOURCES)
    (tmp_path / SOURCES / "Small.sol").write_text(
        "// SPDX-License-Identifier: Apache-2.0\npragma solidity 0.8.37;\n\ncontract Small {}\n", encoding="utf-8"
    )
    assert main([], tmp_path) == 0
    assert main(["--check"], tmp_path) == 0
    written = (tmp_path / DIGEST).read_text(encoding="utf-8").strip()
    assert digest(tmp_path) == written
    artifact = tmp_path / SHIPPED / "Small.json"
    artifact.write_text("{}", encoding="utf-8")
    assert digest(tmp_path) != written
    (tmp_path / SHIPPED / "Gone.json").write_text("{}", encoding="utf-8")
    assert main(["--check"], tmp_path) == 1
    told = capsys.readouterr().out
    assert f"{SHIPPED}/Small.json is not what contracts says: run `make contracts`" in told
    assert f"{SHIPPED}/Gone.json is not what" in told
    assert main([], tmp_path) == 0
    assert main(["--check"], tmp_path) == 0
    assert digest(tmp_path) == written
    (tmp_path / SOURCES / "Small.sol").write_text("contract Small {", encoding="utf-8")
    assert digest(tmp_path) != written
    assert main(["--check"], tmp_path) == 1


def test_compiler_that_is_not_there_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert main(["--check"]) == 1
    assert "npm is not installed here" in capsys.readouterr().err


def test_events_and_commit_have_the_names_that_payload_knows() -> None:
    for name in ("Endorsed", "Proved"):
        entries = {e["name"]: e for e in load_artifact(name).abi if e["type"] in ("event", "function")}
        assert keccak(signature_of(entries["Round"]).encode()) == ROUND_TOPIC
        assert keccak(signature_of(entries["Skipped"]).encode()) == SKIPPED_TOPIC
        assert call_data(name, "commit", b"payload", bytes(32), b"auth") == encode_commit(b"payload", b"auth")


@pytest.mark.parametrize("path", sorted((ROOT / SHIPPED).glob("*.json")), ids=lambda path: path.stem)
def test_shipped_contract_fits_into_an_account(path: Path) -> None:
    artifact = load_artifact(path.stem)
    assert artifact.name == path.stem
    assert 0 < len(artifact.deployed_bytecode) <= CODE_BYTES_MAX


FOR_TESTS_ALONE = {
    *("Atom", "AtomFactory", "BondSubscription", "BondTracker", "Hook", "Playground", "Target", "TestToken"),
    "TestVerifier",
}


def test_contracts_for_tests_are_not_shipped() -> None:
    assert {path.stem for path in (ROOT / FOR_TESTS).glob("*.json")} == FOR_TESTS_ALONE
    assert not {path.stem for path in (ROOT / SHIPPED).glob("*.json")} & FOR_TESTS_ALONE


def test_every_external_function_is_documented() -> None:
    """NatSpec stands above every external or public function that is declared in the sources."""
    for source in sorted((ROOT / SOURCES).glob("*.sol")):
        lines = source.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            head = " ".join(lines[number : number + 6]).split("{")[0].split(";")[0]
            if line.strip().startswith("function ") and (" external" in head or " public" in head):
                assert lines[number - 1].strip().startswith("///"), f"{source.name}:{number + 1}: {line.strip()}"
