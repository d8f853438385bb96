"""The file that says who may call what."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.rpc.credentials import (
    DIGEST_BYTES,
    SALT_BYTES,
    CertificateCredential,
    Credential,
    PasswordCredential,
    Role,
    TokenCredential,
    make_token,
)
from rota.server.credentials_file import CredentialsFileWrong, entry_of, read_credentials

TOKEN = 'token_sha256 = "' + "ab" * 32 + '"'


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "credentials.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


NAMES = st.text(st.characters(codec="utf-8", exclude_characters=":"), min_size=1, max_size=20)
ROLES = st.frozensets(st.sampled_from(Role), min_size=1)
FAMILIES = st.none() | st.frozensets(st.sampled_from(("ptx", "cmd", "seq")), min_size=1)
PARTIES = st.none() | st.frozensets(st.sampled_from(("alice", "a_b", "treasury.*", "x.y")), min_size=1).map(
    lambda names: tuple(sorted(names))
)
DIGESTS = st.binary(min_size=DIGEST_BYTES, max_size=DIGEST_BYTES)
SALTS = st.binary(min_size=SALT_BYTES, max_size=SALT_BYTES)
CREDENTIALS = (
    st.builds(TokenCredential, NAMES, ROLES, DIGESTS, FAMILIES, PARTIES)
    | st.builds(CertificateCredential, NAMES, ROLES, DIGESTS, FAMILIES, PARTIES)
    | st.builds(PasswordCredential, NAMES, ROLES, SALTS, DIGESTS, FAMILIES, PARTIES)
)


@given(st.lists(CREDENTIALS, min_size=1, max_size=4, unique_by=lambda each: each.name))
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, credentials: list[Credential]) -> None:
    path = written(tmp_path_factory.mktemp("house"), "\n".join(map(entry_of, credentials)))
    assert read_credentials(path) == tuple(credentials)


def test_an_entry_does_not_hold_the_token() -> None:
    token, credential = make_token("prometheus", frozenset({Role.READ}))
    assert token not in entry_of(credential)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o602])
def test_a_file_that_others_may_read_or_write_is_refused_with_the_remedy(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path, f'[[credential]]\nname = "a"\nroles = ["read"]\n{TOKEN}\n', mode)
    with pytest.raises(CredentialsFileWrong, match=f"chmod 600 {path}"):
        read_credentials(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must hold from 1 to 1000 entries"),
        *(
            (
                f'[[credential]]\nname = "a"\nroles = ["read"]\nparties = {wrong}\n{TOKEN}',
                r"credential 1\.parties: must be",
            )
            for wrong in ("[]", '"alice"', '["*"]', '["a@node1"]', '["a*"]', '[""]', '["a b"]', "[5]", '["*.a"]')
        ),
        ("my-secret", "is not TOML"),
        ("credential = 5", "must hold from 1 to 1000 entries"),
        ("credential = [5]", "credential 1: must be a table"),
        (f'[[credential]]\nroles = ["read"]\n{TOKEN}', r"credential 1\.name: must be text without a colon"),
        (f'[[credential]]\nname = "a:my-secret"\nroles = ["read"]\n{TOKEN}', r"credential 1\.name"),
        (f'[[credential]]\nname = "a"\n{TOKEN}', r"credential 1\.roles: must be a list of read, submit, operate"),
        (f'[[credential]]\nname = "a"\nroles = ["my-secret"]\n{TOKEN}', r"credential 1\.roles"),
        (f'[[credential]]\nname = "a"\nroles = []\n{TOKEN}', r"credential 1\.roles"),
        (
            '[[credential]]\nname = "a"\nroles = ["read"]',
            "must have one of token_sha256, password_scrypt, certificate_sha256",
        ),
        (
            f'[[credential]]\nname = "a"\nroles = ["read"]\n{TOKEN}\npassword_scrypt = "my-secret"',
            "must have one of token_sha256, password_scrypt, certificate_sha256",
        ),
        (
            '[[credential]]\nname = "a"\nroles = ["read"]\ntoken_sha256 = "my-secret"',
            r"credential 1\.token_sha256: must be 64 hex digits",
        ),
        (
            '[[credential]]\nname = "a"\nroles = ["read"]\npassword_scrypt = "my-secret"',
            r"credential 1\.password_scrypt: must be 32 hex digits",
        ),
        (
            '[[credential]]\nname = "a"\nroles = ["read"]\ntoken = "my-secret"',
            "credential 1: has an unknown key; those are name, roles, families, parties, token_sha256",
        ),
        (
            f'[[credential]]\nname = "a"\nroles = ["read"]\n{TOKEN}\n' * 2,
            "credential.name: must be distinct, and 'a' is there twice",
        ),
        (
            "".join(f'[[credential]]\nname = "{name}"\nroles = ["read"]\n{TOKEN}\n' for name in "ab"),
            r"credential\.token_sha256: must be distinct, and 'a' and 'b' have the same",
        ),
    ],
)
def test_a_wrong_entry_is_refused_by_its_place_without_its_value(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CredentialsFileWrong, match=message) as refused:
        read_credentials(written(tmp_path, text))
    assert "my-secret" not in str(refused.value)


def test_a_file_of_any_size_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(CredentialsFileWrong, match="must be at most 1048576 bytes"):
        read_credentials(written(tmp_path, "#" * (1024 * 1024 + 1)))
