"""Which key is at which path: fixed, because a changed rule would lose every key."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.keys.derivation import HARDENED, write_path
from rota.keys.names import REGISTRAR, SUBMITTER, endorser_key, party_key, path_of, steps_of, submitter_key
from rota.keys.signers import WalletSigner
from rota.model.types import ContractAddress, IntentId, NodeName, Party
from tests.keys.kit import ALICE, CONTRACT, DEPLOYMENT, NODE, WALLET, WORDS, vectors

# Paths and addresses by another implementation (eth-account) from the rule as the documentation words it.
ELSEWHERE = vectors("names")
ADDRESSES = st.binary(min_size=20, max_size=20).map(lambda address: ContractAddress("0x" + address.hex()))
PARTIES = st.text(min_size=1, max_size=60).filter(lambda text: len(text.encode()) <= 255).map(Party)
DEPLOYMENTS = st.binary(min_size=16, max_size=16).map(IntentId)


def test_names_of_these_forms_were_derived_elsewhere_too() -> None:
    assert [SUBMITTER, submitter_key(CONTRACT), party_key(ALICE), endorser_key(NODE, DEPLOYMENT)] == [
        key["name"] for key in ELSEWHERE["keys"]
    ]


@pytest.mark.parametrize("key", ELSEWHERE["keys"], ids=lambda key: key["name"].partition("/")[0])
def test_paths_and_addresses_are_those_that_another_implementation_finds(key: dict[str, str]) -> None:
    assert ELSEWHERE["mnemonic"] == WORDS
    assert write_path(path_of(key["name"])) == key["path"]
    assert WalletSigner(WALLET).address_of(key["name"]) == key["address"]


def test_registrar_is_the_second_account_that_every_wallet_shows() -> None:
    assert write_path(path_of(REGISTRAR)) == "m/44'/60'/0'/0/1"
    # The second of the accounts that every development chain makes of these words.
    assert WalletSigner(WALLET).address_of(REGISTRAR) == "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_name_is_eight_hardened_steps(name: str) -> None:
    assert len(steps_of(name)) == 8
    assert all(HARDENED <= step < 2 * HARDENED for step in steps_of(name))


@settings(deadline=None)
@given(PARTIES, PARTIES)
def test_two_parties_never_share_a_path(one: Party, other: Party) -> None:
    assert (path_of(party_key(one)) == path_of(party_key(other))) == (one == other)


@settings(deadline=None)
@given(DEPLOYMENTS, DEPLOYMENTS)
def test_a_node_endorses_in_no_two_contracts_with_one_key(one: IntentId, other: IntentId) -> None:
    assert (path_of(endorser_key(NODE, one)) == path_of(endorser_key(NODE, other))) == (one == other)


@settings(deadline=None)
@given(ADDRESSES, DEPLOYMENTS, PARTIES)
def test_no_two_purposes_share_a_path(address: ContractAddress, deployment: IntentId, party: Party) -> None:
    names = [SUBMITTER, REGISTRAR, submitter_key(address), party_key(party), endorser_key(NODE, deployment)]
    assert len({path_of(name) for name in names}) == len(names)


def test_a_party_whose_name_looks_like_a_path_is_still_itself() -> None:
    odd = Party(f"party/{ALICE}/{CONTRACT}")
    assert path_of(party_key(odd))[3:] == steps_of(odd)
    assert path_of(party_key(odd)) != path_of(party_key(ALICE))


@pytest.mark.parametrize(
    "name", ["", "submitter/", "submitter/0xAB", "party/", "party", "endorser/node1/00", "coins/", "node1", "m/44'"]
)
def test_what_is_no_name_of_ours_is_refused(name: str) -> None:
    with pytest.raises(
        ValueError, match=r"^key name: submitter, registrar, submitter/…, party/…, endorser/…/… or coins/…, not "
    ):
        path_of(name)


@pytest.mark.parametrize("party", ["", "x" * 256])
def test_a_party_without_a_proper_name_has_no_key(party: str) -> None:
    with pytest.raises(ValueError, match="party: 1 to 255 bytes of text"):
        party_key(Party(party))


def test_a_node_s_name_has_no_slash() -> None:
    with pytest.raises(AssertionError, match="no slash"):
        endorser_key(NodeName("a/b"), DEPLOYMENT)
