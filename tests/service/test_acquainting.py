"""What a node makes of a contract that a peer has told it of: the chain is believed, and nobody else."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from rota import host
from rota.directory.acquaintance_events import AcquisitionEnded, ContractsListed, ContractsSifted, GenesisFound
from rota.directory.effects import AcquireContract, FindGenesis, ListContracts, SiftContracts
from rota.engine import contracts as contracts_module
from rota.engine.contracts import KnownContracts
from rota.keys.names import endorser_key
from rota.ledger.deployments import FoundDeployment
from rota.machine.tables import Event
from rota.model.blocks import FactoryDeployment
from rota.model.genesis import Genesis, encode_genesis, genesis_hash
from rota.model.types import ContractAddress, IntentId, KnownContract, NodeName, Party, RequestId
from rota.ports import Unavailable
from rota.service.contracts import acquainting as acquainting_module
from rota.service.contracts.acquainting import Acquainting
from rota.wire.messages import Verdict
from tests.ledger.chains import in_loop

CHAIN_ID = 31_337
NODE, PEER = NodeName("node1"), NodeName("node2")
DEPLOYMENT = IntentId(b"deployment 1....")
MADE = ContractAddress("0x" + "cc" * 20)
OURS, THEIRS = ContractAddress("0x" + "01" * 20), ContractAddress("0x" + "02" * 20)
FIRST = ContractAddress("0x" + "00" * 20)
ASKED = RequestId(1, 2)


def genesis_of(*members: str, chain_id: int = CHAIN_ID) -> Genesis:
    domain = host.load_domains()["synthetic"]
    wanted = host.deploy(domain, {"members": list(members), "threshold": 1}, Party("alice@node1"))
    return host.genesis_of(domain, wanted, host.ContractDefaults(chain_id), bytes(32))


GENESIS = genesis_of("alice@node1", "alice@node2")
ON_CHAIN = FactoryDeployment(DEPLOYMENT, MADE, genesis_hash(encode_genesis(GENESIS)), (OURS, THEIRS), 1)


class Keys:
    """Our key in this contract."""

    def address_of(self, signer: str) -> ContractAddress:
        assert signer == endorser_key(NODE, DEPLOYMENT)
        return OURS

    async def sign(self, signer: str, digest: bytes) -> bytes:
        raise AssertionError("nothing is signed here")


@dataclass
class Bench:
    """A node that is told of contracts, and a chain that has one, or none, or does not answer."""

    found: FoundDeployment | Exception | None = field(default_factory=lambda: FoundDeployment(ON_CHAIN, 7))
    told: list[Event] = field(default_factory=list)
    taken: list[KnownContract] = field(default_factory=list)
    is_store_away: bool = False

    def __post_init__(self) -> None:
        self.contracts = KnownContracts(NODE, CHAIN_ID, host.load_domains(), bytes(32))
        self.acquainting = Acquainting(self.contracts, Keys(), self.find, self.stored, self.told.append)

    async def find(self, deployment: IntentId) -> FoundDeployment | None:
        assert deployment == DEPLOYMENT
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    async def stored(self, contract: ContractAddress) -> KnownContract | None:
        """What the store has."""
        if self.is_store_away:
            raise Unavailable("the store is away")
        return next((known for known in self.taken if known.contract.address == contract), None)

    async def take_in(self, known: KnownContract) -> None:
        self.taken.append(known)
        self.contracts.add(known)

    async def acquire(self, genesis: bytes = encode_genesis(GENESIS), has_consent: bool = True) -> AcquisitionEnded:
        self.acquainting.perform(AcquireContract(MADE, PEER, DEPLOYMENT, genesis, has_consent), self.take_in)
        while not self.told:
            await asyncio.sleep(0)
        ended = self.told.pop()
        assert isinstance(ended, AcquisitionEnded)
        return ended


@in_loop
async def test_contract_is_taken_in_as_the_chain_has_it() -> None:
    bench = Bench()
    assert await bench.acquire() == AcquisitionEnded(MADE, PEER, Verdict.ACCEPTED)
    [known] = bench.taken
    assert (known.contract, known.deployment) == (GENESIS.contract(MADE), DEPLOYMENT)
    assert (known.signers, known.deployed_at) == ((OURS, THEIRS), 7)


@in_loop
async def test_contract_that_came_meanwhile_is_not_taken_in_twice() -> None:
    bench = Bench()
    await bench.acquire()
    assert await bench.acquire() == AcquisitionEnded(MADE, PEER, Verdict.ACCEPTED)
    assert len(bench.taken) == 1


@pytest.mark.parametrize(
    "found",
    [
        None,
        FoundDeployment(replace(ON_CHAIN, contract=THEIRS), 7),
        FoundDeployment(replace(ON_CHAIN, genesis=bytes(32)), 7),
    ],
    ids=["nothing was deployed so", "another contract was", "with another genesis"],
)
def test_what_the_chain_does_not_say_is_false(found: FoundDeployment | None) -> None:
    @in_loop
    async def told() -> None:
        bench = Bench(found)
        assert await bench.acquire() == AcquisitionEnded(MADE, PEER, Verdict.REFUSED, is_false=True)
        assert bench.taken == []

    told()


@pytest.mark.parametrize(
    ("genesis", "signers"),
    [
        (GENESIS, (THEIRS, OURS)),
        (genesis_of("alice@node2", "alice@node3"), (OURS, THEIRS)),
        (replace(GENESIS, domain="unheard of"), (OURS, THEIRS)),
        (genesis_of("alice@node1", "alice@node2", chain_id=1), (OURS, THEIRS)),
    ],
    ids=["another key than ours signs", "we have no part in it", "we lack the domain", "another chain"],
)
def test_what_is_true_and_not_for_us_is_only_refused(genesis: Genesis, signers: tuple[ContractAddress, ...]) -> None:
    @in_loop
    async def told() -> None:
        encoded = encode_genesis(genesis)
        bench = Bench(FoundDeployment(replace(ON_CHAIN, genesis=genesis_hash(encoded), endorsers=signers), 7))
        assert await bench.acquire(encoded) == AcquisitionEnded(MADE, PEER, Verdict.REFUSED)
        assert bench.taken == []

    told()


@in_loop
async def test_contract_without_consent_is_verified_and_not_taken_in() -> None:
    bench = Bench()
    encoded = encode_genesis(GENESIS)
    ended = await bench.acquire(encoded, has_consent=False)
    assert ended == AcquisitionEnded(MADE, PEER, Verdict.REFUSED, False, DEPLOYMENT, encoded)
    assert bench.taken == []
    # What the chain does not have is false, and no operator is asked about it.
    ended = await Bench(found=None).acquire(encoded, has_consent=False)
    assert ended == AcquisitionEnded(MADE, PEER, Verdict.REFUSED, is_false=True)


@in_loop
async def test_chain_that_does_not_answer_is_asked_again_later() -> None:
    bench = Bench(Unavailable("the chain is away"))
    assert await bench.acquire() == AcquisitionEnded(MADE, PEER, Verdict.BUSY)


@in_loop
async def test_only_so_many_wait_for_the_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acquainting_module, "ACQUIRING_MAX", 1)
    bench = Bench()
    order = AcquireContract(MADE, PEER, DEPLOYMENT, encode_genesis(GENESIS))
    bench.acquainting.perform(order, bench.take_in)
    bench.acquainting.perform(order, bench.take_in)
    assert bench.told == [AcquisitionEnded(MADE, PEER, Verdict.BUSY)]
    await bench.acquainting.close()
    assert bench.taken == []


@in_loop
async def test_peers_are_told_from_what_the_node_has() -> None:
    bench = Bench()
    await bench.acquire()
    for order in (
        ListContracts(PEER, ASKED, FIRST),
        SiftContracts(PEER, (MADE, OURS)),
        FindGenesis(MADE, PEER, ASKED),
        FindGenesis(OURS, PEER, ASKED),
    ):
        bench.acquainting.perform(order, bench.take_in)
    while len(bench.told) < 3:
        await asyncio.sleep(0)
    assert bench.told == [
        ContractsListed(PEER, ASKED, (MADE,)),
        ContractsSifted(PEER, (OURS,)),
        GenesisFound(PEER, ASKED, bench.taken[0]),
    ]


@in_loop
async def test_genesis_stays_in_the_store() -> None:
    bench = Bench()
    await bench.acquire()
    assert bench.taken[0].genesis == encode_genesis(GENESIS)
    known = bench.contracts.known(MADE)
    assert known is not None
    assert (known.genesis, known.source) == (b"", PEER)


@in_loop
async def test_genesis_is_given_to_nobody_while_the_store_is_away_or_gives_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    await bench.acquire()
    bench.is_store_away = True
    bench.acquainting.perform(FindGenesis(MADE, PEER, ASKED), bench.take_in)
    await asyncio.sleep(0.0)
    bench.is_store_away = False
    monkeypatch.setattr(acquainting_module, "GIVING_MAX", 0)
    bench.acquainting.perform(FindGenesis(MADE, PEER, ASKED), bench.take_in)
    await bench.acquainting.close()
    assert bench.told == []


@in_loop
async def test_contracts_with_a_large_genesis_have_a_quota_by_peer_and_in_total(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size_bytes = len(encode_genesis(GENESIS))
    monkeypatch.setattr(contracts_module, "SMALL_GENESIS_BYTES", size_bytes - 1)
    monkeypatch.setattr(contracts_module, "LARGE_OF_PEER_BYTES_MAX", size_bytes)
    monkeypatch.setattr(contracts_module, "LARGE_BYTES_MAX", 2 * size_bytes - 1)
    bench = Bench()
    assert await bench.acquire() == AcquisitionEnded(MADE, PEER, Verdict.ACCEPTED)
    with pytest.raises(Unavailable, match=f"from {PEER}"):
        bench.contracts.require_room(PEER, bytes(size_bytes))
    with pytest.raises(Unavailable, match="takes no more of them"):
        bench.contracts.require_room(NodeName("another"), bytes(size_bytes))
    bench.contracts.require_room(PEER, bytes(size_bytes - 1))
    bench.contracts.add(bench.taken[0])
    monkeypatch.setattr(contracts_module, "LARGE_BYTES_MAX", 2 * size_bytes)
    bench.contracts.require_room(NodeName("another"), bytes(size_bytes))


def test_contracts_of_one_peer_are_bounded_and_leave_half_of_the_places_to_peers_with_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(contracts_module, "CONTRACTS_MAX", 8)
    monkeypatch.setattr(contracts_module, "CONTRACTS_OF_PEER_MAX", 3)
    monkeypatch.setattr(contracts_module, "CONTRACTS_OF_PEER_RESERVED", 1)
    contracts, genesis = Bench().contracts, encode_genesis(GENESIS)
    liar, other, newcomer = map(NodeName, ("liar", "other", "newcomer"))

    def take_in(number: int, source: NodeName | None) -> None:
        address = ContractAddress(f"0x{number:040x}")
        known = KnownContract(GENESIS.contract(address), IntentId(number.to_bytes(16, "big")), (), genesis)
        contracts.add(replace(known, source=source))
        contracts.add(replace(known, source=source))

    for number in range(3):
        contracts.require_room(liar, genesis)
        take_in(number, liar)
    with pytest.raises(Unavailable, match="3 contracts from liar"):
        contracts.require_room(liar, genesis)
    contracts.require_room(other, genesis)
    take_in(3, other)
    with pytest.raises(Unavailable, match="1 contracts from other"):
        contracts.require_room(other, genesis)
    contracts.require_room(newcomer, genesis)
    for number in range(4, 8):
        take_in(number, None)
    with pytest.raises(Unavailable, match="takes no more"):
        contracts.require_room(newcomer, genesis)


@in_loop
async def test_contract_for_which_there_is_no_room_is_not_taken_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contracts_module, "CONTRACTS_MAX", 0)
    bench = Bench()
    assert await bench.acquire() == AcquisitionEnded(MADE, PEER, Verdict.BUSY)
    assert bench.taken == []
