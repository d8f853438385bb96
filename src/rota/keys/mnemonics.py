"""A wallet as a list of words (BIP-39), which an operator writes on paper and restores everything from.

The words encode 128 to 256 random bits and a checksum. The seed of all keys is made of the words and an optional
passphrase; every passphrase gives a valid and different wallet, so that a mistyped one is not noticed here. The word
list and the stretching are the `mnemonic` package's; ours are the bounds, and errors that repeat no word.
"""

from __future__ import annotations

import os
import unicodedata
from typing import Final

from mnemonic import Mnemonic

from rota.keys.secret import Secret

ENTROPY_BYTES: Final = 32  # 24 words
ENTROPY_BYTES_ALLOWED: Final = (16, 20, 24, 28, 32)
WORD_COUNTS: Final = (12, 15, 18, 21, 24)
PHRASE_BYTES_MAX: Final = 1024

_ENGLISH: Final = Mnemonic("english")


def new_phrase() -> Secret:
    """Twenty-four fresh words."""
    return phrase_of(Secret(os.urandom(ENTROPY_BYTES)))


def phrase_of(entropy: Secret) -> Secret:
    """The words for these random bytes."""
    assert len(entropy) in ENTROPY_BYTES_ALLOWED, f"entropy has 16, 20, 24, 28 or 32 bytes, not {len(entropy)}"
    return Secret(_ENGLISH.to_mnemonic(entropy.reveal()))


def read_phrase(text: Secret) -> Secret:
    """The words as they were typed, normalised: lower case, single spaces. A `ValueError` names the error."""
    if len(text) > PHRASE_BYTES_MAX:
        raise ValueError(f"mnemonic: at most {PHRASE_BYTES_MAX} bytes, not {len(text)}")
    phrase = Secret(_tidied(text))
    count = len(phrase.reveal().split())
    if count not in WORD_COUNTS:
        raise ValueError(f"mnemonic: 12, 15, 18, 21 or 24 words, not {count}")
    unknown = _numbers_of_unknown_words(phrase)
    if unknown:
        raise ValueError(f"mnemonic: not in the English list is word number {', '.join(map(str, unknown))}")
    if not _ENGLISH.check(phrase.reveal().decode()):
        raise ValueError("mnemonic: the checksum is wrong; a word is another one, or two have changed places")
    return phrase


def seed_of(phrase: Secret, passphrase: Secret | None = None) -> Secret:
    """The 64 bytes of seed of a wallet."""
    return Secret(
        Mnemonic.to_seed(phrase.reveal().decode(), "" if passphrase is None else passphrase.reveal().decode())
    )


def _tidied(text: Secret) -> str:
    return " ".join(unicodedata.normalize("NFKD", text.reveal().decode(errors="replace")).lower().split())


def _numbers_of_unknown_words(phrase: Secret) -> list[int]:
    """Places, counted from one, and not the words: a mistyped word is most of a right one."""
    known = frozenset(_ENGLISH.wordlist)
    return [number for number, word in enumerate(phrase.reveal().decode().split(), 1) if word not in known]
