"""The contracts around the ledger: factory, registry, and the two that any member may act on."""

from __future__ import annotations

import pytest
from eth_abi.abi import decode, encode

from rota.model.types import ContractAddress
from tests.contracts.evm import ALICE, BOB, TIME_S, Chain, Reverted, artifact, call_data, keccak
from tests.contracts.kit import intent_id

CAROL = ContractAddress("0x" + "ca" * 20)
DAVE = ContractAddress("0x" + "da" * 20)
GENESIS = keccak(b"genesis")
FIRST, SECOND = keccak(b"first certificate"), keccak(b"second certificate")


def refused(chain: Chain, contract: str, to: ContractAddress, *call: object, sender: ContractAddress = ALICE) -> str:
    with pytest.raises(Reverted) as reverted:
        chain.call(contract, to, *call, sender=sender)  # type: ignore[arg-type]
    return str(reverted.value)


# Factory.


def test_factory_deploys_an_endorsed_ledger_and_tells_what_the_chain_needs() -> None:
    chain = Chain()
    factory = chain.deploy("Factory")
    data = call_data("Factory", "deployEndorsed", intent_id(0), GENESIS, [ALICE, BOB], 2)
    answer = chain.send(factory, data)
    ledger = ContractAddress("0x" + answer.output[-20:].hex())
    (event,) = answer.events
    signature = b"EndorsedDeployed(bytes16,address,bytes32,address[],uint256)"
    assert event.topics == (keccak(signature), intent_id(0).ljust(32, b"\0"), answer.output, GENESIS)
    assert decode(["address[]", "uint256"], event.content) == ((ALICE, BOB), 2)
    packed = b"".join(bytes.fromhex(each[2:]).rjust(32, b"\0") for each in (ALICE, BOB))
    assert chain.call("Endorsed", ledger, "policy") == (keccak(packed), 2, 2)
    assert chain.call("Factory", factory, "ledgerOf", intent_id(0)) == ledger


def proved(intent: int, verifier: ContractAddress, genesis: bytes = GENESIS) -> tuple[object, ...]:
    """The arguments of a deployment of a ledger whose coins Bob issues."""
    return intent_id(intent), genesis, BOB, artifact("Proved").bytecode, proved_arguments(verifier)


def proved_arguments(verifier: ContractAddress) -> bytes:
    return encode(["address", "address", "bool"], [verifier, verifier, False])


def test_factory_deploys_a_proved_ledger_and_tells_what_it_is() -> None:
    chain = Chain()
    factory, verifier = chain.deploy("Factory"), chain.deploy("TestVerifier", 7)
    answer = chain.send(factory, call_data("Factory", "deployProved", *proved(0, verifier)))
    (event,) = answer.events
    topics = (keccak(b"ProvedDeployed(bytes16,address,bytes32,address,bytes32)"), intent_id(0).ljust(32, b"\0"))
    assert event.topics == (*topics, answer.output, GENESIS)
    arguments = proved_arguments(verifier)
    assert decode(["address", "bytes32"], event.content) == (
        BOB,
        keccak(keccak(artifact("Proved").bytecode) + keccak(arguments)),
    )
    ledger = ContractAddress("0x" + answer.output[-20:].hex())
    assert chain.call("Proved", ledger, "issuer") == BOB
    assert chain.call("Proved", ledger, "smallVerifier") == verifier


def test_factory_tells_why_a_proved_ledger_cannot_be() -> None:
    chain = Chain()
    factory = chain.deploy("Factory")
    assert "NoVerifier" in refused(chain, "Factory", factory, "deployProved", *proved(0, BOB))


def test_what_is_placed_is_where_everybody_expects_it_and_is_placed_once() -> None:
    chain = Chain()
    factory = chain.deploy("Factory")
    code = artifact("TestVerifier").bytecode + (7).to_bytes(32, "big")
    expected = "0x" + keccak(b"\xff" + bytes.fromhex(factory[2:]) + bytes(32) + keccak(code))[-20:].hex()
    assert chain.call("Factory", factory, "place", code) == expected
    assert chain.call("Factory", factory, "place", code) == expected
    assert chain.call("TestVerifier", ContractAddress(expected), "verify", [0] * 7, bytes(256)) is False


def test_deployment_is_an_intent_and_a_used_id_is_refused_to_everybody() -> None:
    chain = Chain()
    factory, verifier = chain.deploy("Factory"), chain.deploy("TestVerifier", 7)
    chain.call("Factory", factory, "deployEndorsed", intent_id(0), GENESIS, [ALICE], 1)
    again = refused(chain, "Factory", factory, "deployEndorsed", intent_id(0), GENESIS, [BOB], 1, sender=BOB)
    assert again == f"IntentUsed({intent_id(0)!r},)"
    assert "IntentUsed" in refused(chain, "Factory", factory, "deployProved", *proved(0, verifier, FIRST))
    chain.call("Factory", factory, "deployProved", *proved(1, verifier))


def calling_back(call: bytes) -> bytes:
    """Creation code that makes this call of whoever creates it, and leaves an empty contract."""
    # PUSH2 size PUSH1 20 PUSH0 CODECOPY, then PUSH0 PUSH0 PUSH2 size PUSH0 PUSH0 CALLER GAS CALL STOP.
    code = bytes.fromhex(f"61{len(call):04x}60205f39" + f"5f5f61{len(call):04x}5f5f335af100")
    return code.ljust(32, b"\0") + call


def test_constructor_that_deploys_under_the_same_id_is_told_of_first() -> None:
    """Nodes take the first of the two: what the outer one deploys is nothing that they know."""
    chain = Chain()
    factory = chain.deploy("Factory")
    ours = call_data("Factory", "deployEndorsed", intent_id(0), GENESIS, [ALICE, BOB], 2)
    liars = call_data("Factory", "deployProved", intent_id(0), FIRST, BOB, calling_back(ours), b"")
    events = chain.send(factory, liars).events
    # Intent, ledger and genesis are indexed.
    assert [event.topics[3] for event in events] == [GENESIS, FIRST]
    assert len({event.topics[1] for event in events}) == 1


def test_deployment_that_fails_does_not_use_its_intent() -> None:
    chain = Chain()
    factory = chain.deploy("Factory")
    assert "WrongThreshold" in refused(chain, "Factory", factory, "deployEndorsed", intent_id(0), GENESIS, [ALICE], 2)
    chain.call("Factory", factory, "deployEndorsed", intent_id(0), GENESIS, [ALICE], 1)


def test_address_of_a_ledger_depends_on_intent_genesis_and_policy() -> None:
    chain = Chain()
    factory = chain.deploy("Factory")
    found: set[str] = set()
    for intent, genesis, threshold in ((0, GENESIS, 1), (1, GENESIS, 1), (0, FIRST, 1), (0, GENESIS, 2)):
        checkpoint = chain.evm.snapshot()
        call = ("deployEndorsed", intent_id(intent), genesis, [ALICE, BOB], threshold)
        found.add(chain.call("Factory", factory, *call))
        chain.evm.revert(checkpoint)
    assert len(found) == 4


# Registry.


@pytest.fixture
def chain() -> Chain:
    return Chain()


@pytest.fixture
def registry(chain: Chain) -> ContractAddress:
    address = chain.deploy("Registry")
    chain.call("Registry", address, "register", "node1", FIRST, "dns:///node1:9000")
    return address


def node(chain: Chain, registry: ContractAddress, name: str = "node1") -> tuple[str, bytes, bytes, str]:
    found: tuple[str, bytes, bytes, str] = chain.call("Registry", registry, "nodeOf", name)
    return found


def test_registered_node_is_found_and_told(chain: Chain, registry: ContractAddress) -> None:
    assert node(chain, registry) == (ALICE, FIRST, bytes(32), "dns:///node1:9000")
    assert node(chain, registry, "node2")[0] == "0x" + "00" * 20
    answer = chain.send(registry, call_data("Registry", "register", "node2", SECOND, "elsewhere"), BOB)
    (event,) = answer.events
    signature = b"NodeChanged(bytes32,string,address,bytes32,bytes32,string)"
    assert event.topics == (keccak(signature), keccak(b"node2"), bytes.fromhex(BOB[2:]).rjust(32, b"\0"))
    assert decode(["string", "bytes32", "bytes32", "string"], event.content) == (
        "node2",
        SECOND,
        bytes(32),
        "elsewhere",
    )


def test_certificate_is_exchanged_without_an_outage(chain: Chain, registry: ContractAddress) -> None:
    chain.call("Registry", registry, "announce", "node1", SECOND)
    assert node(chain, registry)[1:3] == (FIRST, SECOND)
    chain.call("Registry", registry, "rotate", "node1")
    assert node(chain, registry)[1:3] == (SECOND, bytes(32))
    assert refused(chain, "Registry", registry, "rotate", "node1") == "NothingAnnounced('node1',)"


def test_announcement_can_be_taken_back(chain: Chain, registry: ContractAddress) -> None:
    chain.call("Registry", registry, "announce", "node1", SECOND)
    chain.call("Registry", registry, "announce", "node1", bytes(32))
    assert node(chain, registry)[1:3] == (FIRST, bytes(32))


def test_only_its_owner_changes_a_name(chain: Chain, registry: ContractAddress) -> None:
    changes: tuple[tuple[object, ...], ...] = (
        ("announce", "node1", SECOND),
        ("rotate", "node1"),
        ("move", "node1", "elsewhere"),
        ("give", "node1", BOB),
    )
    for change in changes:
        assert refused(chain, "Registry", registry, *change, sender=BOB) == f"NotOwner('node1', '{ALICE}')"
    assert refused(chain, "Registry", registry, "move", "node9", "x") == f"NotOwner('node9', '0x{'00' * 20}')"
    taken = refused(chain, "Registry", registry, "register", "node1", SECOND, "mine", sender=BOB)
    assert taken == f"NameTaken('node1', '{ALICE}')"
    assert node(chain, registry) == (ALICE, FIRST, bytes(32), "dns:///node1:9000")


def test_name_can_be_given_and_then_obeys_the_new_owner(chain: Chain, registry: ContractAddress) -> None:
    chain.call("Registry", registry, "give", "node1", BOB)
    chain.call("Registry", registry, "move", "node1", "elsewhere", sender=BOB)
    assert node(chain, registry) == (BOB, FIRST, bytes(32), "elsewhere")
    assert "NotOwner" in refused(chain, "Registry", registry, "move", "node1", "back")
    zero = "0x" + "00" * 20
    assert refused(chain, "Registry", registry, "give", "node1", zero, sender=BOB) == "NoOwner('node1',)"


@pytest.mark.parametrize("name", ["", "Node1", "node 1", "nöde", "node@1", "a" * 64])
def test_name_of_other_characters_or_length_is_refused(chain: Chain, registry: ContractAddress, name: str) -> None:
    assert "WrongName" in refused(chain, "Registry", registry, "register", name, FIRST, "here")


def test_longest_name_and_all_characters_are_good(chain: Chain, registry: ContractAddress) -> None:
    for name in ("a" * 63, "abc.xyz-0_9"):
        chain.call("Registry", registry, "register", name, FIRST, "e" * 255)
        assert node(chain, registry, name)[3] == "e" * 255


def test_node_needs_a_fingerprint_and_an_endpoint(chain: Chain, registry: ContractAddress) -> None:
    assert refused(chain, "Registry", registry, "register", "n", bytes(32), "here") == "NoFingerprint('n',)"
    assert "WrongEndpoint" in refused(chain, "Registry", registry, "register", "n", FIRST, "")
    assert "WrongEndpoint" in refused(chain, "Registry", registry, "move", "node1", "e" * 256)


# Epochs and proposals.


@pytest.fixture
def proposals(chain: Chain) -> ContractAddress:
    return chain.deploy("Proposals", [ALICE, BOB, CAROL])


@pytest.fixture
def epochs(chain: Chain, proposals: ContractAddress) -> ContractAddress:
    return chain.deploy("Epochs", proposals, 60)


def test_any_member_advances_once_per_epoch_and_not_before_its_time(chain: Chain, epochs: ContractAddress) -> None:
    assert refused(chain, "Epochs", epochs, "advance()") == f"TooEarly(0, {TIME_S + 60}, {TIME_S})"
    chain.time_s += 60
    answer = chain.send(epochs, call_data("Epochs", "advance(address)", BOB), BOB)
    who = bytes.fromhex(BOB[2:]).rjust(32, b"\0")
    assert answer.events[0].topics == (keccak(b"Advanced(uint256,address)"), (1).to_bytes(32, "big"), who)
    assert chain.call("Epochs", epochs, "epoch") == 1
    late = refused(chain, "Epochs", epochs, "advance(address)", CAROL, sender=CAROL)
    assert late == f"TooEarly(1, {TIME_S + 120}, {TIME_S + 60})"
    chain.time_s += 59
    assert "TooEarly" in refused(chain, "Epochs", epochs, "advance()")
    chain.time_s += 1
    chain.call("Epochs", epochs, "advance()")
    assert chain.call("Epochs", epochs, "epoch") == 2


def test_nobody_advances_in_anothers_name_and_strangers_not_at_all(chain: Chain, epochs: ContractAddress) -> None:
    chain.time_s += 60
    assert refused(chain, "Epochs", epochs, "advance(address)", BOB) == f"NotYourName('{ALICE}', '{BOB}')"
    for call in (("advance()",), ("advance(address)", DAVE), ("advance(address)", BOB)):
        assert refused(chain, "Epochs", epochs, *call, sender=DAVE) == f"NotMember('{DAVE}',)"


def test_missed_epochs_are_made_up_for_one_by_one(chain: Chain, epochs: ContractAddress) -> None:
    chain.time_s += 150
    for _ in range(2):
        chain.call("Epochs", epochs, "advance()")
    assert "TooEarly" in refused(chain, "Epochs", epochs, "advance()")


def test_epoch_must_last(chain: Chain, proposals: ContractAddress) -> None:
    with pytest.raises(Reverted, match="NoDuration"):
        chain.deploy("Epochs", proposals, 0)


def test_any_member_executes_once_when_two_thirds_have_voted(chain: Chain, proposals: ContractAddress) -> None:
    target = chain.deploy("Target")
    touch = call_data("Target", "touch")
    assert chain.call("Proposals", proposals, "propose", target, touch) == 0
    assert refused(chain, "Proposals", proposals, "execute(uint256)", 0) == "TooFewVotes(0, 1, 2)"
    assert refused(chain, "Proposals", proposals, "vote", 0) == f"AlreadyVoted(0, '{ALICE}')"
    chain.call("Proposals", proposals, "vote", 0, sender=BOB)
    assert chain.call("Proposals", proposals, "proposalOf", 0) == (target, touch, 2, False)
    name = refused(chain, "Proposals", proposals, "execute(uint256,address)", 0, ALICE, sender=CAROL)
    assert name == f"NotYourName('{CAROL}', '{ALICE}')"
    chain.call("Proposals", proposals, "execute(uint256,address)", 0, CAROL, sender=CAROL)
    assert chain.call("Target", target, "caller") == "0x" + "00" * 20
    assert chain.call("Target", target, "count") == 1
    assert refused(chain, "Proposals", proposals, "execute(uint256)", 0) == "AlreadyExecuted(0,)"
    assert refused(chain, "Proposals", proposals, "vote", 0, sender=CAROL) == "AlreadyExecuted(0,)"
    assert chain.call("Proposals", proposals, "proposalOf", 0)[3] is True


def test_strangers_neither_propose_nor_vote_nor_execute(chain: Chain, proposals: ContractAddress) -> None:
    chain.call("Proposals", proposals, "propose", proposals, b"")
    calls: tuple[tuple[object, ...], ...] = (
        ("propose", proposals, b""),
        ("vote", 0),
        ("execute(uint256)", 0),
        ("execute(uint256,address)", 0, ALICE),
    )
    for call in calls:
        assert refused(chain, "Proposals", proposals, *call, sender=DAVE) == f"NotMember('{DAVE}',)"


@pytest.mark.parametrize(("count", "required"), [(1, 1), (2, 2), (3, 2), (4, 3), (6, 4), (7, 5), (13, 9), (64, 43)])
def test_two_thirds_are_rounded_up(chain: Chain, count: int, required: int) -> None:
    proposals = chain.deploy("Proposals", [f"0x{n:040x}" for n in range(1, count + 1)])
    assert chain.call("Proposals", proposals, "requiredVotes") == required


def test_failing_proposal_may_be_executed_later(chain: Chain, proposals: ContractAddress) -> None:
    target = chain.deploy("Target")
    chain.call("Target", target, "setBroken", True)
    chain.call("Proposals", proposals, "propose", target, call_data("Target", "touch"))
    chain.call("Proposals", proposals, "vote", 0, sender=BOB)
    assert "ProposalFailed" in refused(chain, "Proposals", proposals, "execute(uint256)", 0)
    chain.call("Target", target, "setBroken", False)
    chain.call("Proposals", proposals, "execute(uint256)", 0)


def decide(chain: Chain, proposals: ContractAddress, id_: int, *call: object) -> None:
    """Alice proposes that the contract call itself, Bob votes for it, Alice executes it."""
    data = call_data("Proposals", *call)  # type: ignore[arg-type]
    assert chain.call("Proposals", proposals, "propose", proposals, data) == id_
    chain.call("Proposals", proposals, "vote", id_, sender=BOB)
    chain.call("Proposals", proposals, "execute(uint256)", id_)


def test_members_change_by_a_proposal_alone(chain: Chain, proposals: ContractAddress, epochs: ContractAddress) -> None:
    for change in ("addMember", "removeMember"):
        assert refused(chain, "Proposals", proposals, change, DAVE) == "OnlyProposal()"
    decide(chain, proposals, 0, "removeMember", CAROL)
    decide(chain, proposals, 1, "addMember", DAVE)
    assert chain.call("Proposals", proposals, "members") == (ALICE, BOB, DAVE)
    chain.time_s += 60
    assert "NotMember" in refused(chain, "Epochs", epochs, "advance()", sender=CAROL)
    chain.call("Epochs", epochs, "advance()", sender=DAVE)


def test_vote_of_a_member_that_left_does_not_count(chain: Chain, proposals: ContractAddress) -> None:
    target = chain.deploy("Target")
    chain.call("Proposals", proposals, "propose", target, call_data("Target", "touch"), sender=CAROL)
    chain.call("Proposals", proposals, "vote", 0)
    decide(chain, proposals, 1, "removeMember", CAROL)
    assert refused(chain, "Proposals", proposals, "execute(uint256)", 0) == "TooFewVotes(0, 1, 2)"


def test_member_that_is_added_again_has_no_old_vote(chain: Chain, proposals: ContractAddress) -> None:
    target = chain.deploy("Target")
    chain.call("Proposals", proposals, "propose", target, call_data("Target", "touch"), sender=CAROL)
    chain.call("Proposals", proposals, "vote", 0)
    decide(chain, proposals, 1, "removeMember", CAROL)
    decide(chain, proposals, 2, "addMember", CAROL)
    assert chain.call("Proposals", proposals, "proposalOf", 0)[2] == 1
    assert refused(chain, "Proposals", proposals, "execute(uint256)", 0) == "TooFewVotes(0, 1, 2)"
    chain.call("Proposals", proposals, "vote", 0, sender=CAROL)
    assert refused(chain, "Proposals", proposals, "vote", 0, sender=CAROL) == f"AlreadyVoted(0, '{CAROL}')"
    assert chain.call("Proposals", proposals, "proposalOf", 0)[2] == 2
    chain.call("Proposals", proposals, "execute(uint256)", 0)


def test_votes_expire_with_their_proposal(chain: Chain, proposals: ContractAddress) -> None:
    target = chain.deploy("Target")
    chain.call("Proposals", proposals, "propose", target, call_data("Target", "touch"))
    chain.call("Proposals", proposals, "vote", 0, sender=BOB)
    open_for_s = chain.call("Proposals", proposals, "OPEN_FOR")
    assert open_for_s == 30 * 86_400
    chain.time_s += open_for_s - 1
    assert chain.call("Proposals", proposals, "isOpen", 0) is True
    assert chain.call("Proposals", proposals, "proposalOf", 0)[2] == 2
    chain.time_s += 1
    assert chain.call("Proposals", proposals, "isOpen", 0) is False
    assert chain.call("Proposals", proposals, "proposalOf", 0)[2:] == (0, False)
    assert refused(chain, "Proposals", proposals, "execute(uint256)", 0) == "Expired(0,)"
    assert refused(chain, "Proposals", proposals, "vote", 0, sender=CAROL) == "Expired(0,)"
    # Another one is not concerned.
    chain.call("Proposals", proposals, "propose", target, call_data("Target", "touch"))
    chain.call("Proposals", proposals, "vote", 1, sender=BOB)
    chain.call("Proposals", proposals, "execute(uint256)", 1)
    assert chain.call("Proposals", proposals, "isOpen", 1) is False


def test_members_are_distinct_and_bounded_and_the_last_one_stays(chain: Chain) -> None:
    zero = "0x" + "00" * 20
    wrong: tuple[tuple[list[str], str], ...] = (
        ([], "WrongMemberCount(0,)"),
        ([ALICE, zero], f"WrongMember('{zero}',)"),
        ([ALICE, ALICE], f"WrongMember('{ALICE}',)"),
        ([f"0x{n:040x}" for n in range(1, 66)], "WrongMemberCount(65,)"),
    )
    for members, text in wrong:
        with pytest.raises(Reverted) as reverted:
            chain.deploy("Proposals", members)
        assert str(reverted.value) == text
    alone = chain.deploy("Proposals", [ALICE])
    for data in (call_data("Proposals", "removeMember", ALICE), call_data("Proposals", "removeMember", BOB)):
        id_ = chain.call("Proposals", alone, "propose", alone, data)
        assert "ProposalFailed" in refused(chain, "Proposals", alone, "execute(uint256)", id_)


def test_proposal_needs_a_target_and_a_number_that_exists(chain: Chain, proposals: ContractAddress) -> None:
    assert refused(chain, "Proposals", proposals, "propose", DAVE, b"") == f"NoTarget('{DAVE}',)"
    for function in ("vote", "execute(uint256)", "proposalOf", "isOpen"):
        assert refused(chain, "Proposals", proposals, function, 0) == "UnknownProposal(0,)"
