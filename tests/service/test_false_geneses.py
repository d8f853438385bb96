"""A genesis that a peer proposes is refused when this node could not live with it, and stops nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from rota import host
from rota.domains.base import Rejected
from rota.domains.pente.groups import group_in
from rota.domains.queries import Query
from rota.engine.contracts import ContractRefused, KnownContracts
from rota.ledger.proved_ledgers import code_of
from rota.model.blocks import FactoryDeployment
from rota.model.genesis import Genesis, decode_genesis, encode_genesis, genesis_hash
from rota.model.types import (
    NEVER_HEARD,
    RANGE_SIZE_MAX,
    ContractAddress,
    IntentId,
    KnownContract,
    NodeName,
    Party,
    RequestId,
    Rotation,
    Tried,
    node_of,
)
from rota.rpc import errors
from rota.rpc.credentials import CALLER, EVERY_ROLE, Caller
from rota.service.groups.groups import Groups
from rota.service.groups.interface import GroupCall
from rota.sim.domain import intent_id
from rota.store.encoding import decode_contract, encode
from rota.wire import Frame, Malformed, decode_frame, encode_frame
from rota.wire.messages import DelegationCommand, Envelope, GroupMessage, Verdict
from tests.ledger.chains import CHAIN_ID, in_loop
from tests.service.test_deploying import ID, NODE, OTHER, OURS, SIGNER, contracts, judged
from tests.service.test_mail import CONTRACT, GROUP, group_contract, posted

# A letter that nobody sees, one that ends a line, and too many.
UNREADABLE = ("no\u200bde3", "node3\n", "n" * 256)


def group(*members: str, version: str = "cancun") -> Genesis:
    """The genesis of a privacy group, as a liar writes it."""
    domain = host.load_domains()["pente"]
    wanted = host.deploy(domain, {"members": ["alice@node1", "bob@node2"]}, Party("bob@node2"))
    genesis = host.genesis_of(domain, wanted, host.ContractDefaults(CHAIN_ID), bytes(32))
    _, *others = msgspec.json.decode(genesis.configuration)
    others[2] = version
    nodes = tuple(dict.fromkeys(node_of(Party(member)) for member in members))
    return replace(
        genesis,
        configuration=msgspec.json.encode([members, *others]),
        members=tuple(map(Party, members)),
        committee=nodes,
        endorsers=nodes,
    )


def is_readable(name: str) -> bool:
    """Whether a peer goes on with a node that says it could not reach a member of this name."""
    tried = (Tried(NodeName(name), NEVER_HEARD),)
    body = DelegationCommand(RequestId(1, 1), (), tried)
    frame = decode_frame(encode_frame([Envelope(ContractAddress("0x" + "11" * 20), RequestId(1, 1), 1, 1, body)]))
    assert isinstance(frame, Frame | Malformed)
    return isinstance(frame, Frame)


@in_loop
async def test_group_whose_domain_cannot_open_it_is_refused_and_the_node_goes_on() -> None:
    assert judged(group("alice@node1", "bob@node2")).verdict is Verdict.ACCEPTED
    event = judged(group("alice@node1", "bob@node2", version="Cancun"))
    assert (event.verdict, event.reason) == (Verdict.REFUSED, "genesis: evmVersion: must be written as cancun")


@in_loop
async def test_genesis_whose_configuration_is_no_text_is_refused_and_the_node_goes_on() -> None:
    """Any registered node may propose it, without a transaction on the chain."""
    for written in (b'["\xff"]', b"\xff\xfe", b"[" * 100_000):
        event = judged(replace(group("alice@node1", "bob@node2"), configuration=written))
        assert (event.verdict, event.reason) == (Verdict.REFUSED, "genesis: configuration: must be JSON")
    good = group("alice@node1", "bob@node2")
    assert group_in(good) is not None
    for part in (b"cancun", b"["):
        assert part in good.configuration
        assert group_in(replace(good, configuration=good.configuration.replace(part, b"\xff", 1))) is None


def test_domain_that_fails_on_a_genesis_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    domains = host.load_domains()

    def fail(*_: object) -> None:
        raise KeyError("of the domain's own")

    monkeypatch.setattr(type(domains["pente"]), "memory", fail)
    with pytest.raises(Rejected, match="the domain failed: KeyError"):
        host.open_genesis(domains, group("alice@node1", "bob@node2"), ContractAddress("0x" + "11" * 20), bytes(32))


def test_genesis_with_other_terms_than_the_deployed_one_is_refused() -> None:
    wanted = replace(group("alice@node1", "bob@node2"), rotation=Rotation.STRICT, range_size=20)
    encoded = encode_genesis(wanted)
    deployed = FactoryDeployment(ID, CONTRACT, genesis_hash(encoded), (OURS, OTHER), wanted.threshold)
    assert contracts().judge(encoded, deployed, SIGNER).contract.rotation is Rotation.STRICT
    for told in (replace(wanted, rotation=Rotation.STICKY), replace(wanted, range_size=21)):
        with pytest.raises(
            ContractRefused, match=r"genesis: its hash must be 0x[0-9a-f]{64}, which stands on the chain"
        ):
            contracts().judge(encode_genesis(told), deployed, SIGNER)


def test_token_with_locks_is_taken_in_only_with_the_ledger_that_has_them() -> None:
    """A liar deploys another ledger under a genesis with public locks, or leaves the hash of the code out."""
    domain = host.load_domains()["noto"]
    known = KnownContracts(NODE, CHAIN_ID, host.load_domains(), bytes(32), factory=OTHER)
    ledger = domain.ledger_of(host.deploy(domain, {"notary": "bank@node2"}, Party("bank@node2")).configuration)
    assert ledger is not None
    hashed = code_of(ledger, OTHER).hash
    genesis = known.plan(
        "noto", {"notary": "bank@node2"}, Party("bank@node2"), host.ContractDefaults(CHAIN_ID), bytes(32)
    )
    assert (genesis.ledger, genesis.threshold) == (hashed, 1)
    encoded = encode_genesis(genesis)
    deployed = FactoryDeployment(ID, CONTRACT, genesis_hash(encoded), (OURS,), 0, ledger=hashed)
    assert known.judge(encoded, deployed, SIGNER).contract.threshold == 1
    for lie, reason in (
        (replace(deployed, ledger=b"x" * 32), "made of other code"),
        (replace(deployed, ledger=b"", threshold=1), "made of other code"),
        (replace(deployed, threshold=1), "asks for 1 of 1 signatures"),
    ):
        with pytest.raises(ContractRefused, match=reason):
            known.judge(encoded, lie, SIGNER)
    bare = encode_genesis(replace(genesis, ledger=b""))
    with pytest.raises(ContractRefused, match=r"genesis.ledger: must be 0x[0-9a-f]{64}, the code that node1 has"):
        known.judge(bare, replace(deployed, genesis=genesis_hash(bare)), SIGNER)


@in_loop
async def test_genesis_with_a_range_that_is_too_long_is_not_taken_in_and_a_stored_one_is_used() -> None:
    longest = replace(group("alice@node1", "bob@node2"), range_size=RANGE_SIZE_MAX)
    assert judged(longest).verdict is Verdict.ACCEPTED
    longer = replace(longest, range_size=RANGE_SIZE_MAX + 1)
    event = judged(longer)
    assert event.verdict is Verdict.REFUSED
    assert event.reason == f"genesis.range_size: must be from 1 to {RANGE_SIZE_MAX} blocks"
    encoded = encode_genesis(longer)
    deployed = FactoryDeployment(ID, CONTRACT, genesis_hash(encoded), (OURS, OTHER), longer.threshold)
    known = contracts()
    with pytest.raises(ContractRefused, match="range_size"):
        known.judge(encoded, deployed, SIGNER)
    known.add(KnownContract(longer.contract(CONTRACT), ID, (OURS, OTHER), encoded))
    assert known.hosted(CONTRACT) is not None


@in_loop
async def test_genesis_with_more_places_than_a_node_can_compute_is_not_taken_in_and_a_stored_one_is_used() -> None:
    most = replace(group("alice@node1", "bob@node2"), virtual_nodes=65_536)
    assert judged(most).verdict is Verdict.ACCEPTED
    more = replace(most, virtual_nodes=65_537)
    event = judged(more)
    assert event.verdict is Verdict.REFUSED
    assert event.reason == "genesis.virtual_nodes: must be from 1 to 65536 with 2 coordinators"
    encoded = encode_genesis(more)
    deployed = FactoryDeployment(ID, CONTRACT, genesis_hash(encoded), (OURS, OTHER), more.threshold)
    known = contracts()
    with pytest.raises(ContractRefused, match="virtual_nodes"):
        known.judge(encoded, deployed, SIGNER)
    stored = encode(KnownContract(more.contract(CONTRACT), ID, (OURS, OTHER), encoded))
    known.add(decode_contract(stored))
    assert known.hosted(CONTRACT) is not None


@in_loop
async def test_group_with_a_member_whose_name_no_peer_reads_is_refused() -> None:
    for name in UNREADABLE:
        assert not is_readable(name), "whoever named it to another member would lose the connection, again and again"
        assert judged(group("alice@node1", "bob@node2", f"carol@{name}")).verdict is Verdict.REFUSED
        false = replace(group("alice@node1", "bob@node2"), members=(Party("alice@node1"), Party(f"carol@{name}")))
        assert judged(false).verdict is Verdict.REFUSED
    assert is_readable("node3")
    assert judged(group("alice@node1", "bob@node2", "carol@node3")).verdict is Verdict.ACCEPTED


@pytest.mark.parametrize("is_quarantined", [False, True])
def test_second_group_with_the_id_of_a_known_one_is_refused(is_quarantined: bool) -> None:
    known = contracts()
    known.quarantine({OTHER: "a reason"} if is_quarantined else {})
    first = encode_genesis(group("alice@node1", "bob@node2"))
    other = encode_genesis(group("alice@node1", "bob@node2", "carol@node3"))
    assert known.consider(first, ID, (), SIGNER) == OURS
    known.add(KnownContract(decode_genesis(first).contract(OTHER), ID, (OURS, OTHER), first))
    assert known.consider(first, ID, (), SIGNER) == OURS
    with pytest.raises(ContractRefused, match="has another group of this id"):
        known.consider(other, intent_id("another"), (), SIGNER)
    known.consider(other, intent_id("another"), (), SIGNER, proposer=NODE)


def test_group_with_the_id_of_one_that_somebody_else_proposed_is_refused() -> None:
    known = contracts()
    first = encode_genesis(group("alice@node1", "bob@node2"))
    copied = encode_genesis(group("alice@node1", "bob@node2", "carol@node3"))
    honest, liar, again = NodeName("node2"), NodeName("node3"), intent_id("again")
    assert known.consider(first, ID, (), SIGNER, proposer=honest) == OURS
    for proposer in (liar, None):
        with pytest.raises(ContractRefused, match="node2 proposed another group of this id before"):
            known.consider(copied, intent_id("another"), (), SIGNER, proposer=proposer)
    known.consider(first, ID, (OURS, OTHER), SIGNER, proposer=honest)
    known.consider(first, again, (), SIGNER, proposer=honest)
    known.consider(first, again, (), SIGNER)


@in_loop
async def test_id_with_two_contracts_is_ambiguous_and_names_both(tmp_path: Path) -> None:
    async with posted(tmp_path) as post:
        known = group_contract()
        copied = replace(known, contract=replace(known.contract, address=OTHER), deployment=intent_id("another"))
        groups = Groups(NODE, post.contracts, post.opened.store, post.mail, never, never)
        call = GroupCall("pente", GROUP, "alice", OTHER, None, "0x", (), b"", 0, 0)
        with pytest.raises(errors.Rejected, match=r"0x0101.* is none"):
            await groups.send(call)
        post.contracts.add(copied)
        for asked in (groups.with_id("pente", GROUP), groups.send(call), groups.call(call)):
            with pytest.raises(errors.Rejected, match=f"is ambiguous: .*{CONTRACT} and {OTHER} have this id"):
                await asked
        # A caller that is held to parties does not learn the contracts of groups that it may not be a member of.
        CALLER.set(Caller("held", EVERY_ROLE, parties=("alice",)))
        with pytest.raises(errors.Rejected, match="is ambiguous: groups have this id"):
            await groups.send(call)
        post.hear(NodeName("node2"), GroupMessage(IntentId(b"m" * 16), 5, "topic", b"1"), OTHER)
        await asyncio.sleep(0)
        assert await post.opened.store.mail.messages(Query()) == ()


async def never(*_: object) -> NoReturn:
    raise AssertionError("nothing is asked for")
