"""Who may call what: tokens and passwords, kept as hashes, each with roles, and perhaps for some families alone.

Theory of operation. A token is long and random, so its SHA-256 is enough to know it again. A password is neither;
it is kept under scrypt, which makes each guess cost what one check costs. That cost must not be paid for every
request: a password that was right is remembered for the life of the process, under a key that nobody else has.
Checks of passwords run in threads, a few at a time.

Failed attempts are counted per address in a window. An address that has too many is refused unchecked until
the window has passed. Neither what was presented nor a user name that is not ours is ever logged: people type
passwords where names belong.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import Final

import structlog

TOKEN_BYTES: Final = 32
DIGEST_BYTES: Final = 32
SALT_BYTES: Final = 16
HEADER_CHARACTERS_MAX: Final = 4_096
PASSWORD_CHECKS_MAX: Final = 2
REMEMBERED_MAX: Final = 1_024
_SCRYPT_COST: Final = 2**14
_SCRYPT_BLOCK: Final = 8
_SCRYPT_MEMORY_BYTES_MAX: Final = 64 * 1024 * 1024

_log = structlog.get_logger(__name__)


class Role(Enum):
    """What a method needs of its caller; each is given by itself, none contains another."""

    READ = "read"
    SUBMIT = "submit"
    OPERATE = "operate"


EVERY_ROLE: Final = frozenset(Role)


@dataclass(frozen=True, slots=True)
class TokenCredential:
    """A bearer token, known by its SHA-256. `families` are those whose methods it is for; without them, all."""

    name: str
    roles: frozenset[Role]
    sha256: bytes
    families: frozenset[str] | None = None

    def __post_init__(self) -> None:
        assert len(self.sha256) == DIGEST_BYTES, f"a SHA-256 is {DIGEST_BYTES} bytes, not {len(self.sha256)}"


@dataclass(frozen=True, slots=True)
class PasswordCredential:
    """A user name and the scrypt hash of a password. `families` are those whose methods it is for; without, all."""

    name: str
    roles: frozenset[Role]
    salt: bytes
    scrypt: bytes
    families: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if not self.name or ":" in self.name:
            raise ValueError("name: must be a user name without a colon")
        assert len(self.salt) >= SALT_BYTES, f"a salt is at least {SALT_BYTES} bytes"
        assert len(self.scrypt) == DIGEST_BYTES, f"a hash is {DIGEST_BYTES} bytes"


Credential = TokenCredential | PasswordCredential


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, and what they may do: methods of these roles, and of these families if such are named."""

    name: str
    roles: frozenset[Role]
    families: frozenset[str] | None = None


ANYBODY: Final = Caller("anybody", EVERY_ROLE)

# Who makes the call that is being answered, for methods to which it matters.
CALLER: Final[ContextVar[Caller]] = ContextVar("caller", default=ANYBODY)


def make_token(
    name: str, roles: frozenset[Role], families: frozenset[str] | None = None
) -> tuple[str, TokenCredential]:
    """A new token, to be shown once, and what is kept of it."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    return token, token_credential(name, roles, token, families)


def token_credential(
    name: str, roles: frozenset[Role], token: str, families: frozenset[str] | None = None
) -> TokenCredential:
    """What is kept of a token."""
    return TokenCredential(name, roles, hashlib.sha256(token.encode()).digest(), families)


def password_credential(
    name: str, roles: frozenset[Role], password: str, families: frozenset[str] | None = None
) -> PasswordCredential:
    """What is kept of a password; takes as long as a check."""
    salt = secrets.token_bytes(SALT_BYTES)
    return PasswordCredential(name, roles, salt, _scrypt(password.encode(), salt), families)


class Refused(Exception):
    """The caller is not let in; the text is for the caller and holds nothing of what was presented."""


class Doorkeeper:
    """Knows callers by their `Authorization` header, and counts those that it does not know."""

    def __init__(
        self,
        credentials: Sequence[Credential],
        now_ms: Callable[[], int],
        failed_attempts_max: int,
        failed_attempts_window_ms: int,
        failed_addresses_max: int,
    ) -> None:
        self._tokens: dict[bytes, TokenCredential] = {}
        self._passwords: dict[str, PasswordCredential] = {}
        self._is_open: Final = not credentials
        self._attempts: Final = FailedAttempts(
            now_ms, failed_attempts_max, failed_attempts_window_ms, failed_addresses_max
        )
        self._remembering_key: Final = secrets.token_bytes(DIGEST_BYTES)
        self._remembered: Final[OrderedDict[bytes, Caller]] = OrderedDict()
        self._checking: Final = asyncio.Semaphore(PASSWORD_CHECKS_MAX)
        # An unknown user costs as much time as a known one, so that names cannot be told by the clock.
        self._nobody: Final = PasswordCredential("nobody", frozenset(), bytes(SALT_BYTES), bytes(DIGEST_BYTES))
        self._take(credentials)

    def use(self, credentials: Sequence[Credential]) -> None:
        """From now on these are known and no others. A door that is open to all, or that was not, stays so."""
        assert bool(credentials) is not self._is_open, "a node is open to all or it is not, for its whole life"
        self._take(credentials)

    def _take(self, credentials: Sequence[Credential]) -> None:
        self._tokens = {c.sha256: c for c in credentials if isinstance(c, TokenCredential)}
        self._passwords = {c.name: c for c in credentials if isinstance(c, PasswordCredential)}
        self._remembered.clear()

    @property
    def asks_credentials(self) -> bool:
        """Whether callers must show some."""
        return not self._is_open

    async def admit(self, header: str | None, address: str) -> Caller:
        """Who this is. `Refused` with what the caller may know of the reason."""
        if self._is_open:
            return ANYBODY
        wait_ms = self._attempts.wait_ms(address)
        if wait_ms:
            raise Refused(f"too many failed attempts from this address; try again in {-(-wait_ms // 1_000)} s")
        if header is None:
            raise Refused("credentials are needed: an Authorization header with Bearer or Basic")
        caller = await self._known(header)
        if caller is None:
            count = self._attempts.note(address)
            scheme = header.partition(" ")[0].lower()
            _log.warning(
                "authentication failed",
                address=address,
                scheme=scheme if scheme in ("bearer", "basic") else "other",
                failed_attempts=count,
            )
            raise Refused("these credentials are not known here")
        return caller

    async def _known(self, header: str) -> Caller | None:
        if len(header) > HEADER_CHARACTERS_MAX:
            return None
        scheme, _, presented = header.partition(" ")
        match scheme.lower():
            case "bearer":
                # The table is asked by hash: how long that takes says nothing of a token.
                token = self._tokens.get(hashlib.sha256(presented.strip().encode()).digest())
                return Caller(token.name, token.roles, token.families) if token is not None else None
            case "basic":
                return await self._known_by_password(presented.strip())
            case _:
                return None

    async def _known_by_password(self, presented: str) -> Caller | None:
        mark = hmac.digest(self._remembering_key, presented.encode(), "sha256")
        if mark in self._remembered:
            self._remembered.move_to_end(mark)
            return self._remembered[mark]
        try:
            name, _, password = base64.b64decode(presented, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError, ValueError):
            return None
        credential = self._passwords.get(name, self._nobody)
        async with self._checking:
            made = await asyncio.to_thread(_scrypt, password.encode(), credential.salt)
        if not hmac.compare_digest(made, credential.scrypt) or credential is self._nobody:
            return None
        caller = Caller(credential.name, credential.roles, credential.families)
        if self._passwords.get(name) is not credential:
            # It was taken away while it was being checked.
            return None
        self._remembered[mark] = caller
        if len(self._remembered) > REMEMBERED_MAX:
            self._remembered.popitem(last=False)
        return caller


class FailedAttempts:
    """How often each address failed in its present window; the longest known is forgotten when there are too many."""

    def __init__(self, now_ms: Callable[[], int], attempts_max: int, window_ms: int, addresses_max: int) -> None:
        self._now_ms: Final = now_ms
        self._attempts_max: Final = attempts_max
        self._window_ms: Final = window_ms
        self._addresses_max: Final = addresses_max
        self._failed: Final[OrderedDict[str, tuple[int, int]]] = OrderedDict()

    def wait_ms(self, address: str) -> int:
        """How long this address is refused; 0 when it may try."""
        began_ms, count = self._failed.get(address, (0, 0))
        left_ms = began_ms + self._window_ms - self._now_ms()
        if count < self._attempts_max or left_ms <= 0:
            return 0
        return left_ms

    def note(self, address: str) -> int:
        """It failed once more; how often in this window."""
        now_ms = self._now_ms()
        began_ms, count = self._failed.pop(address, (now_ms, 0))
        if now_ms >= began_ms + self._window_ms:
            began_ms, count = now_ms, 0
        self._failed[address] = (began_ms, count + 1)
        if len(self._failed) > self._addresses_max:
            self._failed.popitem(last=False)
        return count + 1

    def __len__(self) -> int:
        return len(self._failed)


def _scrypt(password: bytes, salt: bytes) -> bytes:
    return hashlib.scrypt(
        password, salt=salt, n=_SCRYPT_COST, r=_SCRYPT_BLOCK, p=1, maxmem=_SCRYPT_MEMORY_BYTES_MAX, dklen=DIGEST_BYTES
    )
