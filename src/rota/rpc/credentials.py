"""Credentials of callers: tokens and passwords, stored as hashes, with roles and perhaps families and parties.

Theory of operation. A token is long and random, so its SHA-256 is enough to recognise it. A password is neither; it is
stored under scrypt, so that each guess costs as much as a check. A request must not pay that cost each time: a password
that was right is remembered while the process runs, under a random key of the process. Checks of passwords run in
threads, a few at a time, and one at a time for an address and a user name: a guesser holds up no other caller.

A right token is never refused because of wrong ones. Failed attempts are counted for an address together with the
user name, if it is a known one. From `failed_attempts_max` in a window on, each further attempt is delayed, twice as
long each time: a wrong token when it has been found wrong, a password before it is checked, unless it was right
before. The address is the one that a trusted proxy names, where there is one. Neither the presented secret nor an
unknown user name is ever logged: people type passwords into the field for names.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import Final
from weakref import WeakValueDictionary

from rota.logs import catalogue
from rota.rpc.formats import without_folders

TOKEN_BYTES: Final = 32
DIGEST_BYTES: Final = 32
SALT_BYTES: Final = 16
HEADER_CHARACTERS_MAX: Final = 4_096
PASSWORD_CHECKS_MAX: Final = 2
REMEMBERED_MAX: Final = 1_024
DELAYED_MAX: Final = 256
LOGGED_MAX: Final = 10
DELAY_MS: Final = 100
DOUBLINGS_MAX: Final = 16
_SCRYPT_COST: Final = 2**14
_SCRYPT_BLOCK: Final = 8
_SCRYPT_MEMORY_BYTES_MAX: Final = 64 * 1024 * 1024


class Role(Enum):
    """A right that a method needs of its caller; none includes another."""

    READ = "read"
    SUBMIT = "submit"
    OPERATE = "operate"


EVERY_ROLE: Final = frozenset(Role)


@dataclass(frozen=True, slots=True)
class TokenCredential:
    """A bearer token, by its SHA-256. With `families`, only their methods can be called; without, all."""

    name: str
    roles: frozenset[Role]
    sha256: bytes
    families: frozenset[str] | None = None
    parties: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        assert len(self.sha256) == DIGEST_BYTES, f"a SHA-256 is {DIGEST_BYTES} bytes, not {len(self.sha256)}"


@dataclass(frozen=True, slots=True)
class PasswordCredential:
    """A user name and the scrypt hash of a password.

    With `families`, only their methods can be called; without, all.
    """

    name: str
    roles: frozenset[Role]
    salt: bytes
    scrypt: bytes
    families: frozenset[str] | None = None
    parties: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not self.name or ":" in self.name:
            raise ValueError("name: must be a user name without a colon")
        assert len(self.salt) >= SALT_BYTES, f"a salt is at least {SALT_BYTES} bytes"
        assert len(self.scrypt) == DIGEST_BYTES, f"a hash is {DIGEST_BYTES} bytes"


@dataclass(frozen=True, slots=True)
class CertificateCredential:
    """A client certificate, by its SHA-256. With `families`, only their methods can be called; without, all."""

    name: str
    roles: frozenset[Role]
    sha256: bytes
    families: frozenset[str] | None = None
    parties: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        assert len(self.sha256) == DIGEST_BYTES, f"a SHA-256 is {DIGEST_BYTES} bytes, not {len(self.sha256)}"


Credential = TokenCredential | PasswordCredential | CertificateCredential


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller with its roles, and the families to which it is held, if there are any.

    With `parties` it may act for these parties alone, and see what they may see (`service/parties.py`).
    """

    name: str
    roles: frozenset[Role]
    families: frozenset[str] | None = None
    parties: tuple[str, ...] | None = None

    @property
    def families_text(self) -> str:
        """Its families, for an error message."""
        return ", ".join(sorted(self.families or ()))


def caller_of(credential: Credential) -> Caller:
    """The caller that a credential admits."""
    return Caller(credential.name, credential.roles, credential.families, credential.parties)


ANYBODY: Final = Caller("anybody", EVERY_ROLE)


def share_of(caller: Caller, most: int) -> int:
    """The part of a common limit that one caller may use. Without credentials all callers count as one."""
    return most if caller is ANYBODY else max(1, most // 2)


# The caller of the present call, for methods that depend on it.
CALLER: Final[ContextVar[Caller]] = ContextVar("caller", default=ANYBODY)


def shown_trouble(trouble: object) -> str:
    """The reason for a failure, as the caller may see it: only operators see the folders of files."""
    return str(trouble) if Role.OPERATE in CALLER.get().roles else without_folders(str(trouble))


def held_parties() -> tuple[str, ...] | None:
    """The parties of this node to which the caller is held; `None` for all."""
    return CALLER.get().parties


def make_token(
    name: str, roles: frozenset[Role], families: frozenset[str] | None = None, parties: tuple[str, ...] | None = None
) -> tuple[str, TokenCredential]:
    """A new token, to be shown once, and its credential."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    return token, token_credential(name, roles, token, families, parties)


def token_credential(
    name: str,
    roles: frozenset[Role],
    token: str,
    families: frozenset[str] | None = None,
    parties: tuple[str, ...] | None = None,
) -> TokenCredential:
    """The credential of a token."""
    return TokenCredential(name, roles, hashlib.sha256(token.encode()).digest(), families, parties)


def password_credential(
    name: str,
    roles: frozenset[Role],
    password: str,
    families: frozenset[str] | None = None,
    parties: tuple[str, ...] | None = None,
) -> PasswordCredential:
    """The credential of a password; takes as long as a check."""
    salt = secrets.token_bytes(SALT_BYTES)
    return PasswordCredential(name, roles, salt, _scrypt(password.encode(), salt), families, parties)


class Refused(Exception):
    """The caller is refused; the text is for the caller and contains nothing that it presented."""


Attempt = tuple[str, str]
Sleep = Callable[[float], Awaitable[None]]


class Doorkeeper:
    """Finds callers by their `Authorization` header, and delays unknown ones."""

    def __init__(
        self, credentials: Sequence[Credential], attempts: FailedAttempts, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._tokens: dict[bytes, TokenCredential] = {}
        self._passwords: dict[str, PasswordCredential] = {}
        self._certificates: dict[bytes, CertificateCredential] = {}
        self._is_open: Final = not credentials
        self._attempts: Final = attempts
        self._sleep: Final = sleep
        self._delayed = 0
        self._remembering_key: Final = secrets.token_bytes(DIGEST_BYTES)
        self._remembered: Final[OrderedDict[bytes, Caller]] = OrderedDict()
        self._checking: Final = asyncio.Semaphore(PASSWORD_CHECKS_MAX)
        # Each exists while a caller waits for it.
        self._turns: Final[WeakValueDictionary[Attempt, asyncio.Lock]] = WeakValueDictionary()
        # An unknown user costs as much time as a known one, so that time does not show which names exist.
        self._nobody: Final = PasswordCredential("nobody", frozenset(), bytes(SALT_BYTES), bytes(DIGEST_BYTES))
        self._take(credentials)

    def use(self, credentials: Sequence[Credential]) -> None:
        """Replace all credentials. Whether credentials are needed at all does not change."""
        assert bool(credentials) is not self._is_open, "a node is open to all or it is not, for its whole life"
        self._take(credentials)

    def _take(self, credentials: Sequence[Credential]) -> None:
        self._tokens = {c.sha256: c for c in credentials if isinstance(c, TokenCredential)}
        self._passwords = {c.name: c for c in credentials if isinstance(c, PasswordCredential)}
        self._certificates = {c.sha256: c for c in credentials if isinstance(c, CertificateCredential)}
        self._remembered.clear()

    @property
    def asks_credentials(self) -> bool:
        """Whether callers must present credentials."""
        return not self._is_open

    async def admit(self, header: str | None, address: str, certificate: bytes | None = None) -> Caller:
        """The caller. `Refused` with the part of the reason that it may know.

        `certificate` is the digest of a client certificate, which counts where there is no header.
        """
        if self._is_open:
            return ANYBODY
        if header is None:
            shown = self._certificates.get(certificate) if certificate is not None else None
            if shown is not None:
                return caller_of(shown)
            raise Refused("credentials are needed: an Authorization header with Bearer or Basic")
        scheme, _, presented = header.partition(" ")
        kind, presented = scheme.lower(), presented.strip()
        is_long = len(header) > HEADER_CHARACTERS_MAX
        if kind == "bearer" and not is_long:
            # A look-up by hash: the time that it takes shows nothing about a token.
            token = self._tokens.get(hashlib.sha256(presented.encode(errors="replace")).digest())
            if token is not None:
                return caller_of(token)
        if kind == "basic" and not is_long:
            caller = await self._known_by_password(presented, address)
            if caller is not None:
                return caller
        else:
            count = self._attempts.note((address, ""))
            _tell_of_failure(address, kind, count)
            await self._delay(self._attempts.delay_s((address, "")))
        raise Refused("these credentials are not known here")

    async def _known_by_password(self, presented: str, address: str) -> Caller | None:
        mark = hmac.digest(self._remembering_key, presented.encode(errors="replace"), "sha256")
        if mark in self._remembered:
            self._remembered.move_to_end(mark)
            return self._remembered[mark]
        try:
            name, _, password = base64.b64decode(presented, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError, ValueError):
            _tell_of_failure(address, "basic", self._attempts.note((address, "")))
            return None
        credential = self._passwords.get(name, self._nobody)
        attempt = (address, name if credential is not self._nobody else "")
        if not await self._delay(self._attempts.delay_s(attempt)):
            raise Refused("too many attempts are being delayed; try again later")
        turn = self._turns.setdefault(attempt, asyncio.Lock())
        async with turn, self._checking:
            # The same password may have been found right in the meantime.
            if mark in self._remembered:
                return self._remembered[mark]
            made = await asyncio.to_thread(_scrypt, password.encode(), credential.salt)
        is_right = hmac.compare_digest(made, credential.scrypt) and credential is not self._nobody
        # It may have been removed while it was checked.
        if not is_right or self._passwords.get(name) is not credential:
            _tell_of_failure(address, "basic", self._attempts.note(attempt))
            return None
        caller = caller_of(credential)
        self._remembered[mark] = caller
        if len(self._remembered) > REMEMBERED_MAX:
            self._remembered.popitem(last=False)
        return caller

    async def _delay(self, seconds: float) -> bool:
        """Wait for a time; whether there was room to wait."""
        if not seconds:
            return True
        if self._delayed >= DELAYED_MAX:
            return False
        self._delayed += 1
        try:
            await self._sleep(seconds)
        finally:
            self._delayed -= 1
        return True


def _tell_of_failure(address: str, scheme: str, count: int) -> None:
    """Log the first ones, then fewer and fewer, so that a guesser does not fill the log."""
    if count <= LOGGED_MAX or count & (count - 1) == 0:
        shown = scheme if scheme in ("bearer", "basic") else "other"
        catalogue.RPC_AUTHENTICATION_FAILED.log(address=address, scheme=shown, failed_attempts=count)


class FailedAttempts:
    """The failures of each address and user name in its present window; at most so many, the oldest go first.

    Up to `attempts_max` of them are not delayed. The first delay is `DELAY_MS`; it doubles up to `delay_max_ms`.
    """

    def __init__(
        self, now_ms: Callable[[], int], attempts_max: int, window_ms: int, addresses_max: int, delay_max_ms: int
    ) -> None:
        self._now_ms: Final = now_ms
        self._attempts_max: Final = attempts_max
        self._window_ms: Final = window_ms
        self._addresses_max: Final = addresses_max
        self._delay_max_ms: Final = delay_max_ms
        self._failed: Final[OrderedDict[Attempt, tuple[int, int]]] = OrderedDict()

    def delay_s(self, attempt: Attempt) -> float:
        """The delay of such an attempt now."""
        began_ms, count = self._failed.get(attempt, (0, 0))
        if count < self._attempts_max or self._now_ms() >= began_ms + self._window_ms:
            return 0.0
        doublings = min(count - self._attempts_max, DOUBLINGS_MAX)
        return min(DELAY_MS << doublings, self._delay_max_ms) / 1_000

    def note(self, attempt: Attempt) -> int:
        """Count a failure; returns the number in this window."""
        now_ms = self._now_ms()
        began_ms, count = self._failed.pop(attempt, (now_ms, 0))
        if now_ms >= began_ms + self._window_ms:
            began_ms, count = now_ms, 0
        self._failed[attempt] = (began_ms, count + 1)
        if len(self._failed) > self._addresses_max:
            self._failed.popitem(last=False)
        return count + 1

    def __len__(self) -> int:
        return len(self._failed)


def _scrypt(password: bytes, salt: bytes) -> bytes:
    return hashlib.scrypt(
        password, salt=salt, n=_SCRYPT_COST, r=_SCRYPT_BLOCK, p=1, maxmem=_SCRYPT_MEMORY_BYTES_MAX, dklen=DIGEST_BYTES
    )
