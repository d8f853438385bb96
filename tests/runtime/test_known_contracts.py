"""Which of its contracts a node tells another of."""

from __future__ import annotations

import pytest

from rota import hosting
from rota.genesis import encode_genesis
from rota.ports import Unavailable
from rota.runtime.contracts import KnownContracts
from rota.types import ContractAddress, IntentId, KnownContract, NodeName, Party

FIRST = ContractAddress("0x" + "00" * 20)
NODE1, NODE2, NODE3 = map(NodeName, ("node1", "node2", "node3"))


def address(number: int) -> ContractAddress:
    return ContractAddress(f"0x{number:040x}")


def added(contracts: KnownContracts, number: int, mode: str, *members: str) -> ContractAddress:
    domain = hosting.load_domains()["synthetic"]
    wanted = hosting.deploy(domain, {"members": list(members), "mode": mode}, Party("alice@node1"))
    genesis = hosting.genesis_of(domain, wanted, hosting.ContractDefaults(1), bytes([number]) * 32)
    contract = genesis.contract(address(number))
    signers = (contract.address,) * len(contract.endorsers)
    contracts.add(KnownContract(contract, IntentId(bytes(16)), signers, encode_genesis(genesis)))
    return contract.address


def test_rings_are_listed_to_those_that_they_name_and_tokens_to_everybody_in_order_and_in_pages() -> None:
    contracts = KnownContracts(NODE1, 1, hosting.load_domains(), bytes(32))
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
    contracts = KnownContracts(NODE1, 1, hosting.load_domains(), bytes(32))
    ring = added(contracts, 1, "ring", "alice@node1")
    added(contracts, 1, "ring", "alice@node1")
    assert contracts.open_to(NODE1, FIRST, 9) == (ring,)


def test_contract_whose_genesis_cannot_be_read_is_listed_to_nobody() -> None:
    contracts = KnownContracts(NODE1, 1, hosting.load_domains(), bytes(32))
    known = hosting.deploy(hosting.load_domains()["synthetic"], {"members": ["alice@node1"]}, Party("alice@node1"))
    genesis = hosting.genesis_of(hosting.load_domains()["synthetic"], known, hosting.ContractDefaults(1), bytes(32))
    contracts.add(KnownContract(genesis.contract(address(1)), IntentId(bytes(16)), (address(1),), b"nothing"))
    assert contracts.open_to(NODE1, FIRST, 9) == ()
    assert list(contracts.unhosted) == [address(1)]


def test_nobody_is_told_that_there_is_no_contract_before_the_store_has_said_so() -> None:
    contracts = KnownContracts(NODE1, 1, hosting.load_domains(), bytes(32))
    assert contracts.hosted(address(1)) is None
    contracts.is_complete = False
    with pytest.raises(Unavailable, match="node1 has not begun"):
        contracts.hosted(address(1))
    ring = added(contracts, 1, "ring", "alice@node1")
    assert contracts.hosted(ring) is not None
