"""Words, against the vectors that BIP-39 names (Trezor's), and words that somebody mistyped."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.keys.mnemonics import ENTROPY_BYTES_ALLOWED, new_phrase, phrase_of, read_phrase, seed_of
from rota.keys.secret import Secret
from tests.keys.kit import WORDS, vectors

BIP_39 = vectors("bip39")


def test_all_vectors_of_bip_39_are_there() -> None:
    assert len(BIP_39["english"]) == 24


@pytest.mark.parametrize("vector", BIP_39["english"], ids=lambda vector: vector["entropy"])
def test_words_and_seeds_are_the_published_ones(vector: dict[str, str]) -> None:
    phrase = phrase_of(Secret(bytes.fromhex(vector["entropy"])))
    assert phrase.reveal().decode() == vector["mnemonic"]
    assert read_phrase(Secret(vector["mnemonic"])) == phrase
    assert seed_of(phrase, Secret(BIP_39["passphrase"])).reveal().hex() == vector["seed"]


@settings(deadline=None)
@given(st.sampled_from(ENTROPY_BYTES_ALLOWED).flatmap(lambda size: st.binary(min_size=size, max_size=size)))
def test_whatever_words_we_write_we_read(entropy: bytes) -> None:
    phrase = phrase_of(Secret(entropy))
    assert read_phrase(phrase) == phrase


def test_fresh_words_are_twenty_four_and_never_the_same() -> None:
    first, second = new_phrase(), new_phrase()
    assert len(first.reveal().split()) == 24
    assert first != second


def test_words_are_read_however_they_were_typed() -> None:
    assert read_phrase(Secret("  TEST\ttest Test\n" + " ".join(["test"] * 8) + "  junk ")) == Secret(WORDS)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "12, 15, 18, 21 or 24 words, not 0"),
        ("test " * 11, "12, 15, 18, 21 or 24 words, not 11"),
        ("test " * 12, "the checksum is wrong"),
        ("tset " + "test " * 10 + "jnuk", "not in the English list is word number 1, 12"),
        ("test " * 1000, "at most 1024 bytes, not 5000"),
        (b"\xff\xfe " * 12, "word number 1, 2"),
    ],
)
def test_wrong_words_are_refused_and_not_repeated(text: str | bytes, wrong: str) -> None:
    with pytest.raises(ValueError, match=f"^mnemonic: .*{wrong}") as raised:
        read_phrase(Secret(text))
    assert "tset" not in str(raised.value)
