"""The file with the credentials: one entry for each, with a hash in place of the secret.

```toml
[[credential]]
name = "prometheus"
roles = ["read"]
token_sha256 = "9f86d0…"

[[credential]]
name = "anna"
roles = ["read", "submit", "operate"]
families = ["ptx", "seq"]
parties = ["anna", "treasury.*"]
password_scrypt = "<salt as hex>:<hash as hex>"
```

`families` may be left out: then the credential is for the methods of all. So may `parties`: then it is for all parties
of the node. `certificate_sha256` in place of the others is the SHA-256 of a client certificate, where the node has TLS.

The file holds no secret, but a user who can write it can admit any caller, and one who can read it can guess passwords
offline: it is for its owner alone (mode 600). `rota credentials` writes it; `entry_of` makes an entry. Errors name the
entry and the field, never a value.
"""

from __future__ import annotations

import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from rota.rpc.credentials import (
    DIGEST_BYTES,
    SALT_BYTES,
    CertificateCredential,
    Credential,
    PasswordCredential,
    Role,
    TokenCredential,
)

FILE_BYTES_MAX: Final = 1024 * 1024
CREDENTIALS_MAX: Final = 1_000
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
FAMILIES_MAX: Final = 64
_PROOFS: Final = ("token_sha256", "password_scrypt", "certificate_sha256")
_KEYS: Final = ("name", "roles", "families", "parties", *_PROOFS)
PARTIES_MAX: Final = 1_000
# The name of a party of this node, or a prefix of names.
PARTY: Final = re.compile(r"[^\s@*]{1,200}?(\.\*)?")
_FAMILY: Final = re.compile("[a-z]{1,32}")


class CredentialsFileWrong(ValueError):
    """The file is malformed; the text names the entry and a valid value."""


def read_credentials(path: Path) -> tuple[Credential, ...]:
    """Return all credentials of a file.

    `CredentialsFileWrong` when it is malformed, `OSError` when it is unreadable.
    """
    found = path.stat()
    if found.st_mode & _OTHERS:
        raise CredentialsFileWrong(f"{path}: may be read or written by others; fix it with `chmod 600 {path}`")
    if found.st_size > FILE_BYTES_MAX:
        raise CredentialsFileWrong(f"{path}: must be at most {FILE_BYTES_MAX} bytes")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        # The parser's error would show a part of the file.
        raise CredentialsFileWrong(f"{path}: is not TOML") from None
    try:
        return credentials_of(content)
    except CredentialsFileWrong as error:
        raise CredentialsFileWrong(f"{path}: {error}") from None


def credentials_of(content: Mapping[str, object]) -> tuple[Credential, ...]:
    """Return the credentials of a file's content. `CredentialsFileWrong` when it is malformed."""
    entries = content.get("credential")
    if set(content) != {"credential"} or not isinstance(entries, list) or not 1 <= len(entries) <= CREDENTIALS_MAX:
        raise CredentialsFileWrong(f"must hold from 1 to {CREDENTIALS_MAX} entries [[credential]] and nothing else")
    credentials = tuple(_credential(place, entry) for place, entry in enumerate(entries, start=1))
    names = [each.name for each in credentials]
    for name in names:
        if names.count(name) > 1:
            raise CredentialsFileWrong(f"credential.name: must be distinct, and {name!r} is there twice")
    _require_distinct_proofs(credentials)
    return credentials


def _require_distinct_proofs(credentials: Iterable[Credential]) -> None:
    """Refuse one token or certificate for two credentials: which one's rights it had would be chance."""
    owners: dict[tuple[type[Credential], bytes], str] = {}
    for each in credentials:
        if isinstance(each, PasswordCredential):
            continue
        owner = owners.setdefault((type(each), each.sha256), each.name)
        if owner != each.name:
            kind = "token" if isinstance(each, TokenCredential) else "certificate"
            raise CredentialsFileWrong(
                f"credential.{kind}_sha256: must be distinct, and {owner!r} and {each.name!r} have the same"
            )


def entry_of(credential: Credential) -> str:
    """Return the entry of the file for a credential."""
    roles = ", ".join(f'"{role.value}"' for role in Role if role in credential.roles)
    if isinstance(credential, PasswordCredential):
        proof = f'password_scrypt = "{credential.salt.hex()}:{credential.scrypt.hex()}"'
    else:
        kind = "token" if isinstance(credential, TokenCredential) else "certificate"
        proof = f'{kind}_sha256 = "{credential.sha256.hex()}"'
    only = ""
    if credential.families is not None:
        only = f"families = [{', '.join(map(_quoted, sorted(credential.families)))}]\n"
    if credential.parties is not None:
        only += f"parties = [{', '.join(map(_quoted, credential.parties))}]\n"
    return f"[[credential]]\nname = {_quoted(credential.name)}\nroles = [{roles}]\n{only}{proof}\n"


def _credential(place: int, entry: object) -> Credential:
    where = f"credential {place}"
    if not isinstance(entry, dict):
        raise CredentialsFileWrong(f"{where}: must be a table")
    for key in entry:
        if key not in _KEYS:
            raise CredentialsFileWrong(f"{where}: has an unknown key; those are {', '.join(_KEYS)}")
    name = entry.get("name")
    if not isinstance(name, str) or not name or ":" in name:
        raise CredentialsFileWrong(f"{where}.name: must be text without a colon")
    roles = _roles(where, entry.get("roles"))
    families = _families(where, entry.get("families"))
    parties = _parties(where, entry.get("parties"))
    given = [(key, entry[key]) for key in _PROOFS if key in entry]
    if len(given) != 1 or not isinstance(given[0][1], str):
        raise CredentialsFileWrong(f"{where}: must have one of {', '.join(_PROOFS)}, as text")
    key, text = given[0]
    field = f"{where}.{key}"
    if key == "password_scrypt":
        salt, _, made = text.partition(":")
        kept = _bytes(field, salt, SALT_BYTES), _bytes(field, made, DIGEST_BYTES)
        return PasswordCredential(name, roles, *kept, families, parties)
    kind = TokenCredential if key == "token_sha256" else CertificateCredential
    return kind(name, roles, _bytes(field, text, DIGEST_BYTES), families, parties)


def _roles(where: str, given: object) -> frozenset[Role]:
    known = {role.value: role for role in Role}
    if not isinstance(given, list) or not given or not all(isinstance(each, str) and each in known for each in given):
        raise CredentialsFileWrong(f"{where}.roles: must be a list of {', '.join(known)}")
    return frozenset(known[each] for each in given)


def _families(where: str, given: object) -> frozenset[str] | None:
    if given is None:
        return None
    listed: list[object] = given if isinstance(given, list) else []
    named = [each for each in listed if isinstance(each, str) and _FAMILY.fullmatch(each)]
    if len(named) != len(listed) or not 1 <= len(named) <= FAMILIES_MAX:
        raise CredentialsFileWrong(f"{where}.families: must be a list of families of methods, such as ptx")
    return frozenset(named)


def _parties(where: str, given: object) -> tuple[str, ...] | None:
    if given is None:
        return None
    listed: list[object] = given if isinstance(given, list) else []
    named = [each for each in listed if isinstance(each, str) and PARTY.fullmatch(each) and each.isprintable()]
    if len(named) != len(listed) or not 1 <= len(named) <= PARTIES_MAX:
        raise CredentialsFileWrong(
            f"{where}.parties: must be a list of parties of this node, such as alice or treasury.*"
        )
    return tuple(sorted(named))


def _bytes(field: str, text: str, size: int) -> bytes:
    try:
        content = bytes.fromhex(text)
    except ValueError:
        content = b""
    if len(content) != size:
        raise CredentialsFileWrong(f"{field}: must be {2 * size} hex digits in this place")
    return content


def _quoted(text: str) -> str:
    """Return the text as a TOML basic string."""
    escaped = "".join(
        f"\\u{ord(character):04x}" if ord(character) < 0x20 or character in '"\\\x7f' else character
        for character in text
    )
    return f'"{escaped}"'
