"""The tree of keys, against all vectors of BIP-32, and paths."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rota.keys.derivation import (
    DEPTH_MAX,
    HARDENED,
    INDEX_MAX,
    ExtendedPrivateKey,
    master_key,
    read_extended_private_key,
    read_extended_public_key,
    read_path,
    write_path,
)
from rota.keys.secret import Secret
from tests.keys.kit import vectors

BIP_32 = vectors("bip32")
LINKS = [
    pytest.param(chain["seed"], link, id=f"vector {number} {link['path']}")
    for number, chain in enumerate(BIP_32["valid"], 1)
    for link in chain["chain"]
]
ROOT = master_key(Secret(bytes(range(32))))
SEEDS = st.binary(min_size=16, max_size=64)
PATHS = st.lists(st.integers(0, INDEX_MAX), max_size=4).map(tuple)


def test_all_vectors_of_bip_32_are_there() -> None:
    assert [len(chain["chain"]) for chain in BIP_32["valid"]] == [6, 6, 2, 3]
    assert len(BIP_32["invalid"]) == 16


@pytest.mark.parametrize(("seed", "link"), LINKS)
def test_every_node_of_the_published_chains_is_derived(seed: str, link: dict[str, str]) -> None:
    node = master_key(Secret(bytes.fromhex(seed))).at(read_path(link["path"]))
    assert node.serialised().reveal().decode() == link["private"]
    assert node.public.serialised() == link["public"]


@pytest.mark.parametrize("link", [link for chain in BIP_32["valid"] for link in chain["chain"]])
def test_every_node_of_the_published_chains_is_read_and_written_as_it_was(link: dict[str, str]) -> None:
    private = read_extended_private_key(Secret(link["private"]))
    assert private.serialised() == Secret(link["private"])
    assert private.public == read_extended_public_key(link["public"])
    assert read_extended_public_key(link["public"]).serialised() == link["public"]


@pytest.mark.parametrize("text", BIP_32["invalid"])
def test_what_bip_32_calls_invalid_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^extended key: "):
        read_extended_private_key(Secret(text))
    with pytest.raises(ValueError, match=r"^extended key: "):
        read_extended_public_key(text)


@settings(deadline=None)
@example("1" * 113)
@given(st.text(max_size=130))
def test_garbage_is_refused_with_the_field_s_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"^extended key: "):
        read_extended_private_key(Secret(text))


@settings(deadline=None)
@given(SEEDS, PATHS)
def test_what_is_derived_is_read_back_the_same(seed: bytes, path: tuple[int, ...]) -> None:
    node = master_key(Secret(seed)).at(path)
    assert read_extended_private_key(node.serialised()) == node
    assert read_extended_public_key(node.public.serialised()) == node.public
    assert node.depth == len(path)


@settings(deadline=None)
@given(SEEDS, PATHS)
def test_the_short_way_to_a_key_gives_the_key_of_the_node(seed: bytes, path: tuple[int, ...]) -> None:
    root = master_key(Secret(seed))
    content = root.at(path).serialised()
    longer = read_extended_private_key(content).key_at(())
    assert root.key_at(path).address == longer.address


@settings(deadline=None)
@given(SEEDS, st.integers(0, HARDENED - 1))
def test_public_and_private_derivation_agree(seed: bytes, index: int) -> None:
    root = master_key(Secret(seed))
    assert root.child(index).public == root.public.child(index)
    assert hash(root.child(index).public) == hash(root.public.child(index))


def test_a_public_key_has_no_hardened_children() -> None:
    with pytest.raises(AssertionError, match="children 0 to"):
        ROOT.public.child(HARDENED)


def test_a_path_ends_at_the_greatest_depth() -> None:
    deepest = ExtendedPrivateKey(Secret(b"\1" * 32), Secret(b"\2" * 32), DEPTH_MAX)
    with pytest.raises(AssertionError, match="at most 255 steps"):
        deepest.child(0)
    with pytest.raises(AssertionError, match="at most 255 steps"):
        deepest.public.child(0)


@pytest.mark.parametrize("size_bytes", [0, 15, 65])
def test_a_seed_of_another_size_is_refused(size_bytes: int) -> None:
    with pytest.raises(ValueError, match=f"seed: 16 to 64 bytes, not {size_bytes}"):
        master_key(Secret(bytes(size_bytes)))


@settings(deadline=None)
@given(st.lists(st.integers(0, INDEX_MAX), max_size=DEPTH_MAX).map(tuple))
def test_paths_are_written_and_read_back(path: tuple[int, ...]) -> None:
    assert read_path(write_path(path)) == path
    assert read_path(write_path(path).replace("'", "h")) == path


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "begins with m"),
        ("44'/60'", "begins with m"),
        ("m/", "step 1"),
        ("m/0/-1", "step 2"),
        ("m/0/0/2147483648", "step 3"),
        ("m/00", "step 1"),
        ("m/0''", "step 1"),
        ("m/٣", "step 1"),
        ("m" + "/0" * 256, "at most 255 steps, not 256"),
    ],
)
def test_a_wrong_path_is_refused_by_its_step(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=f"^path: .*{wrong}"):
        read_path(text)
