"""The answers to the core's orders about signatures."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.keys import signatures as signatures_module
from rota.keys.names import endorser_key, party_key
from rota.keys.secp256k1 import ORDER, PrivateKey, from_compact, recover_address
from rota.keys.signatures import Signatures, has_endorsed, has_signed_leaf, leaf_hash
from rota.keys.signers import MemorySigner, WalletSigner
from rota.machine.effects import LookUpVerifier
from rota.machine.events import VerifierLookedUp
from rota.model.digests import domain_separator, refusal_digest, round_digest
from rota.model.types import ContractAddress, Digest, IntentId, Leaf, NodeName, Party, RequestId, Transition, node_of
from rota.ports import Policy, Unavailable
from rota.sequencer.effects import Signed, SignTransition, VerifyEndorsement, VerifyEndorsers, VerifySignature
from rota.sequencer.events import (
    AssemblyFailed,
    EndorsementVerified,
    EndorsersVerified,
    SignatureVerified,
    TransitionSigned,
)
from tests.keys.kit import ALICE, CONTRACT, DEPLOYMENT, NODE, WALLET

LEAF = Leaf(bytes(range(32)))
VALID_UNTIL_S = 1_800_000_000
# By other implementations (eth-abi, eth-account): keccak256(abi.encode(leaf, validUntil)) as a message, by alice's key.
BY_A_WALLET = bytes.fromhex(
    "8305bdec7f264568f84359891b2c67b85e1e4385566dfec32563dd701ad9caf2"
    "61b9dba055bc25bfd38bdc2bb563b41adfa76283a7e6df798547650a379457701b"
)
DIGEST = round_digest(domain_separator(1337, CONTRACT), (LEAF,), VALID_UNTIL_S)
REQUEST = RequestId(1, 1)
INTENT = IntentId(bytes(16))
OTHER = ContractAddress("0x" + "0d" * 20)
SIGNER = WalletSigner(WALLET)
OUR_ADDRESS = SIGNER.address_of(endorser_key(NODE, DEPLOYMENT))
PEER = NodeName("node2")
PEER_KEY = PrivateKey(b"\x46" * 32)
POLICY = Policy(((NODE, OUR_ADDRESS), (PEER, ContractAddress("0x" + PEER_KEY.address.hex()))), 2)


@dataclass
class Chain:
    """What is known of contracts."""

    policies: dict[ContractAddress, Policy] = field(default_factory=lambda: {CONTRACT: POLICY})
    deployments: dict[ContractAddress, IntentId] = field(default_factory=lambda: {CONTRACT: DEPLOYMENT})

    def addresses(self) -> tuple[ContractAddress, ...]:
        return tuple(self.policies)

    def policy_of(self, contract: ContractAddress) -> Policy | None:
        return self.policies.get(contract)

    def deployment_of(self, contract: ContractAddress) -> IntentId | None:
        return self.deployments.get(contract)


SIGNATURES = Signatures(NODE, SIGNER, Chain(), Chain())
WITHOUT_KEYS = Signatures(NODE, MemorySigner({}), Chain(), Chain())


def signed(signatures: Signatures = SIGNATURES, party: Party = ALICE) -> TransitionSigned | AssemblyFailed:
    return asyncio.run(
        signatures.sign_transition(SignTransition(CONTRACT, REQUEST, INTENT, party, LEAF, VALID_UNTIL_S))
    )


def verified(signature: bytes, party: Party = ALICE, contract: ContractAddress = CONTRACT) -> SignatureVerified:
    return SIGNATURES.verify_signature(
        VerifySignature(contract, REQUEST, INTENT, party, LEAF, VALID_UNTIL_S, signature)
    )


def endorsed(signature: bytes, contract: ContractAddress = CONTRACT, peer: NodeName = PEER) -> EndorsementVerified:
    return SIGNATURES.verify_endorsement(VerifyEndorsement(contract, peer, DIGEST, signature))


def test_true_signature_is_worked_out_once_and_one_that_was_made_here_never(monkeypatch: pytest.MonkeyPatch) -> None:
    worked_out: list[bytes] = []

    def recover(digest: bytes, signature: bytes) -> bytes:
        worked_out.append(signature)
        return recover_address(digest, signature)

    monkeypatch.setattr(signatures_module, "recover_address", recover)
    ours = Signatures(NODE, SIGNER, Chain(), Chain())
    answer = asyncio.run(ours.sign_transition(SignTransition(CONTRACT, REQUEST, INTENT, ALICE, LEAF, VALID_UNTIL_S)))
    assert isinstance(answer, TransitionSigned)
    alice, peer = ours.verifier_of(ALICE), "0x" + PEER_KEY.address.hex()
    theirs = PEER_KEY.sign_compact(leaf_hash(LEAF, VALID_UNTIL_S))
    assert [ours.has_signed(alice, LEAF, VALID_UNTIL_S, answer.signature) for _ in range(2)] == [True, True]
    assert [ours.has_signed(peer, LEAF, VALID_UNTIL_S, theirs) for _ in range(2)] == [True, True]
    assert worked_out == [theirs]
    # Another party, leaf, bound or signature is checked by itself.
    assert not ours.has_signed(alice, LEAF, VALID_UNTIL_S, theirs)
    assert not ours.has_signed(peer, LEAF, VALID_UNTIL_S + 1, theirs)
    assert not ours.has_signed(peer, Leaf(bytes(32)), VALID_UNTIL_S, theirs)
    assert [ours.has_signed(peer, LEAF, VALID_UNTIL_S, answer.signature) for _ in range(2)] == [False, False]
    assert len(worked_out) == 6


def test_cosigners_of_the_same_node_sign_the_same_leaf() -> None:
    other = Party(f"second@{node_of(ALICE)}")
    order = SignTransition(CONTRACT, REQUEST, INTENT, ALICE, LEAF, VALID_UNTIL_S, cosigners=(other,))
    answer = asyncio.run(SIGNATURES.sign_transition(order))
    assert isinstance(answer, TransitionSigned)
    [cosignature] = answer.cosignatures
    assert has_signed_leaf(SIGNATURES.verifier_of(other), LEAF, VALID_UNTIL_S, cosignature)
    stranger = replace(order, cosigners=(Party("second@elsewhere"),))
    failed = asyncio.run(SIGNATURES.sign_transition(stranger))
    assert isinstance(failed, AssemblyFailed)
    assert "second@elsewhere" in failed.reason


def test_a_leaf_is_signed_as_any_wallet_would_in_the_short_form() -> None:
    answer = signed()
    assert isinstance(answer, TransitionSigned)
    assert (answer.request_id, answer.intent) == (REQUEST, INTENT)
    assert len(answer.signature) == 64
    assert from_compact(answer.signature)[:64] == BY_A_WALLET[:64]
    assert from_compact(answer.signature)[64] + 27 == BY_A_WALLET[64]


def test_both_forms_of_a_signature_are_our_party_s() -> None:
    answer = signed()
    assert isinstance(answer, TransitionSigned)
    for signature in (answer.signature, from_compact(answer.signature), BY_A_WALLET):
        assert verified(signature) == SignatureVerified(REQUEST, INTENT, is_ours=True)


def test_a_signature_serves_no_other_party_leaf_or_bound() -> None:
    alice = SIGNATURES.verifier_of(ALICE)
    assert not verified(BY_A_WALLET, party=Party("bob@node1")).is_ours
    assert has_signed_leaf(alice, LEAF, VALID_UNTIL_S, BY_A_WALLET)
    assert not has_signed_leaf(alice, Leaf(bytes(32)), VALID_UNTIL_S, BY_A_WALLET)
    assert not has_signed_leaf(alice, LEAF, VALID_UNTIL_S + 1, BY_A_WALLET)


def test_a_party_of_another_node_is_not_signed_for_and_not_known() -> None:
    stranger = Party("alice@node2")
    assert signed(party=stranger) == AssemblyFailed(
        REQUEST, INTENT, "the signer of alice@node2: the party is not one of node1"
    )
    assert not verified(BY_A_WALLET, party=stranger).is_ours
    assert SIGNATURES.look_up_verifier(LookUpVerifier(CONTRACT, PEER, REQUEST, stranger)).verifier == ""


@pytest.mark.parametrize("party", [Party("x" * 250 + "@node1")])
def test_a_party_whose_name_is_too_long_has_no_verifier(party: Party) -> None:
    assert SIGNATURES.verifier_of(party) == ""


def test_a_signer_without_the_key_fails_the_assembly_and_knows_no_verifier() -> None:
    answer = signed(WITHOUT_KEYS)
    assert isinstance(answer, AssemblyFailed)
    assert answer.reason == f"the signer of {ALICE}: there is no key of the name party/{ALICE}"
    assert WITHOUT_KEYS.verifier_of(ALICE) == ""


def test_a_party_has_one_address_in_all_contracts() -> None:
    here, there = (
        SIGNATURES.look_up_verifier(LookUpVerifier(contract, PEER, REQUEST, ALICE)) for contract in (CONTRACT, OTHER)
    )
    assert here == VerifierLookedUp(PEER, REQUEST, ALICE, SIGNER.address_of(party_key(ALICE)))
    assert here.verifier == there.verifier


def test_an_endorsement_is_over_the_digest_as_it_is_and_counts() -> None:
    signature = asyncio.run(SIGNATURES.sign_as_endorser(CONTRACT, DIGEST))
    assert len(signature) == 64
    assert endorsed(signature, peer=NODE) == EndorsementVerified(NODE, DIGEST, signature, is_valid=True)
    assert not endorsed(signature, peer=PEER).is_valid


def test_an_endorsement_counts_in_the_form_that_the_contract_takes_alone() -> None:
    assert endorsed(PEER_KEY.sign_compact(DIGEST)).is_valid
    assert not endorsed(PEER_KEY.sign(DIGEST)).is_valid


def test_an_endorsement_of_a_stranger_or_an_unknown_contract_does_not_count() -> None:
    assert not endorsed(PEER_KEY.sign_compact(DIGEST), contract=OTHER).is_valid
    assert not endorsed(PEER_KEY.sign_compact(DIGEST), peer=NodeName("node3")).is_valid


def test_a_signed_leaf_is_no_endorsement_and_an_endorsement_no_signed_leaf() -> None:
    as_leaf = Leaf(DIGEST)
    assert not has_endorsed("0x" + PEER_KEY.address.hex(), DIGEST, PEER_KEY.sign_compact(leaf_hash(as_leaf, 0)))
    assert not has_signed_leaf("0x" + PEER_KEY.address.hex(), as_leaf, 0, PEER_KEY.sign_compact(DIGEST))


def test_signatures_of_endorsers_are_verified_each_by_its_own_address() -> None:
    digest = refusal_digest(bytes(32), ALICE, Transition(INTENT, LEAF))
    ours = asyncio.run(SIGNATURES.sign_as_endorser(CONTRACT, digest))
    signed_by = (
        (NODE, digest, ours),
        (PEER, digest, PEER_KEY.sign_compact(digest)),
        (PEER, digest, ours),
        (NODE, DIGEST, ours),
        (NodeName("node3"), digest, ours),
    )
    order = VerifyEndorsers(CONTRACT, REQUEST, tuple(Signed(*each) for each in signed_by), INTENT)
    expected = (True, True, False, False, False)
    assert SIGNATURES.verify_endorsers(order) == EndorsersVerified(REQUEST, expected, INTENT)


def test_what_the_contract_would_not_count_is_not_signed() -> None:
    elsewhere = Chain(policies={CONTRACT: Policy(((NODE, OTHER),), 1)})
    with pytest.raises(Unavailable, match=f"{CONTRACT} has {OTHER} for us, and our key there is {OUR_ADDRESS}"):
        asyncio.run(Signatures(NODE, SIGNER, elsewhere, Chain()).sign_as_endorser(CONTRACT, DIGEST))
    with pytest.raises(Unavailable, match="has no address for us"):
        asyncio.run(Signatures(NODE, SIGNER, Chain(policies={}), Chain()).sign_as_endorser(CONTRACT, DIGEST))
    with pytest.raises(Unavailable, match="it is not known which intent deployed"):
        asyncio.run(Signatures(NODE, SIGNER, Chain(), Chain(deployments={})).sign_as_endorser(CONTRACT, DIGEST))


@settings(deadline=None)
@given(st.binary(max_size=70))
def test_garbage_is_nobody_s_signature(signature: bytes) -> None:
    assert not verified(signature).is_ours
    assert not endorsed(signature).is_valid


@settings(deadline=None)
@given(st.binary(min_size=32, max_size=32))
def test_the_other_half_s_signature_does_not_count(digest: bytes) -> None:
    signature = PEER_KEY.sign(leaf_hash(Leaf(digest), 0))
    s = ORDER - int.from_bytes(signature[32:64], "big")
    other = signature[:32] + s.to_bytes(32, "big") + bytes([1 - signature[64]])
    assert not has_signed_leaf("0x" + PEER_KEY.address.hex(), Leaf(digest), 0, other)
    assert has_endorsed("0x" + PEER_KEY.address.hex(), Digest(digest), PEER_KEY.sign_compact(digest))
