"""Which of its contracts a node tells another of, and which ones it does not deploy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from rota import host
from rota.domains.base import Rejected
from rota.engine.contracts import KnownContracts
from rota.ledger.artifacts import load_artifact
from rota.model.types import ContractAddress, KnownContract, NodeName, Party
from rota.ports import Unavailable
from rota.prover.key_files import DEVELOPMENT_KEYS, is_development_verifier, read_transcript
from tests.domains.kit import known_by

FIRST = ContractAddress("0x" + "00" * 20)
VERIFIERS = (
    "VerifierAnon2x2",
    "VerifierAnon10x8",
    "VerifierAnonNullifier2x2",
    "VerifierAnonNullifier5x8",
    "VerifierAnonKyc2x2",
    "VerifierAnonNullifierKyc2x2",
)
NODE1, NODE2, NODE3 = map(NodeName, ("node1", "node2", "node3"))


def address(number: int) -> ContractAddress:
    return ContractAddress(f"0x{number:040x}")


def added(contracts: KnownContracts, number: int, mode: str, *members: str) -> ContractAddress:
    arguments = {"members": list(members), "mode": mode}
    contracts.add(known_by("synthetic", arguments, Party("alice@node1"), address(number)))
    return address(number)


def test_rings_are_listed_to_those_that_they_name_and_tokens_to_everybody_in_order_and_in_pages() -> None:
    contracts = KnownContracts(NODE1, 1, host.load_domains(), bytes(32))
    token = added(contracts, 3, "static", "alice@node1")
    ring = added(contracts, 1, "ring", "alice@node1", "alice@node2")
    own = added(contracts, 2, "ring", "alice@node1")
    assert contracts.open_to(NODE1, FIRST, 9) == (ring, own, token)
    assert contracts.open_to(NODE2, FIRST, 9) == (ring, token)
    assert contracts.open_to(NODE3, FIRST, 9) == (token,)
    assert contracts.open_to(NODE1, FIRST, 1) == (ring,)
    assert contracts.open_to(NODE1, ring, 2) == (own, token)
    assert contracts.open_to(NODE1, token, 2) == ()


def test_contract_that_is_added_again_is_listed_once() -> None:
    contracts = KnownContracts(NODE1, 1, host.load_domains(), bytes(32))
    ring = added(contracts, 1, "ring", "alice@node1")
    added(contracts, 1, "ring", "alice@node1")
    assert contracts.open_to(NODE1, FIRST, 9) == (ring,)


def test_addresses_are_copied_when_they_are_asked_for_and_not_for_each_contract(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node that starts with 131,072 contracts would copy billions of them."""
    copies: list[int] = []

    class Counted(dict[ContractAddress, KnownContract]):
        def __iter__(self) -> Iterator[ContractAddress]:
            copies.append(len(self))
            return super().__iter__()

    contracts = KnownContracts(NODE1, 1, host.load_domains(), bytes(32))
    monkeypatch.setattr(contracts, "_known", Counted())
    assert contracts.addresses() == ()
    every = tuple(added(contracts, number, "ring", "alice@node1") for number in (3, 1, 2))
    assert (contracts.addresses(), contracts.addresses()) == (every, every)
    assert copies == [3]


def test_contract_whose_genesis_cannot_be_read_is_listed_to_nobody() -> None:
    contracts = KnownContracts(NODE1, 1, host.load_domains(), bytes(32))
    known = known_by("synthetic", {"members": ["alice@node1"]}, Party("alice@node1"), address(1))
    contracts.add(replace(known, genesis=b"nothing"))
    assert contracts.open_to(NODE1, FIRST, 9) == ()
    assert list(contracts.unhosted) == [address(1)]


def test_nobody_is_told_that_there_is_no_contract_before_the_store_has_said_so() -> None:
    contracts = KnownContracts(NODE1, 1, host.load_domains(), bytes(32))
    assert contracts.hosted(address(1)) is None
    contracts.is_complete = False
    with pytest.raises(Unavailable, match="node1 has not begun"):
        contracts.hosted(address(1))
    ring = added(contracts, 1, "ring", "alice@node1")
    assert contracts.hosted(ring) is not None


# Proofs by the development keys.

ZETO = {"tokenName": "Zeto_Anon"}
FACTORY = ContractAddress("0x" + "fa" * 20)
DEFAULTS = host.ContractDefaults(1)
BANK = Party("bank@node1")


def test_token_whose_proofs_can_be_forged_is_not_deployed_unless_the_operator_allows_it() -> None:
    contracts = KnownContracts(NODE1, 1, host.load_domains(), bytes(32), FACTORY)
    with pytest.raises(Rejected, match=r"proving\.allow_development_keys is not set"):
        contracts.plan("zeto", ZETO, BANK, DEFAULTS, bytes(32))
    allowing = KnownContracts(NODE1, 1, host.load_domains(), bytes(32), FACTORY, allows_development_keys=True)
    assert allowing.plan("zeto", ZETO, BANK, DEFAULTS, bytes(32)).domain == "zeto"
    # Who endorses needs no proof.
    noto = {"name": "C", "symbol": "C", "notary": "bank@node1", "notaryMode": "basic"}
    assert contracts.plan("noto", noto, BANK, DEFAULTS, bytes(32)).domain == "noto"


def test_token_whose_proofs_can_be_forged_is_a_warning_and_is_told_to_the_prover() -> None:
    contracts = KnownContracts(NODE1, 1, host.load_domains(), bytes(32), FACTORY)
    told: list[ContractAddress] = []
    contracts.when_hosted = told.append
    added(contracts, 1, "ring", "alice@node1")
    assert list(contracts.warnings) == []
    for number, counted in ((2, "1 contract takes"), (3, "2 contracts take")):
        contracts.add(known_by("zeto", ZETO, BANK, address(number)))
        (warning,) = contracts.warnings
        assert warning.startswith(f"{counted} proofs by the development keys")
    assert told == [address(1), address(2), address(3)]


def test_verifier_of_another_set_up_rests_on_no_development_key() -> None:
    for circuit, name in zip(read_transcript(DEVELOPMENT_KEYS).circuits, VERIFIERS, strict=True):
        code = load_artifact(name).bytecode
        assert is_development_verifier(code)
        alpha = bytes.fromhex(circuit.verifying_key["alpha"][0])
        assert not is_development_verifier(code.replace(alpha, bytes(reversed(alpha))))
