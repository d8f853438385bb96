"""A user's transaction on the base ledger itself, from acceptance to end; decisions only.

Theory of operation. It is durable before its user has an id. It waits until its dependencies have succeeded, until
it can be estimated and until its account can pay. Then it takes the account's next nonce and is signed; nonce and
signed bytes are durable before they are sent, and the same bytes are sent again until a block uses the nonce. One that
blocks pass by is signed again at a higher price, under the same nonce: only one version can be mined. A receipt
is believed when its block is as deep as the node's confirmations require, and is looked up again until then, so that a
reorganisation only leads back to sending.

    state      leaves it when
    Waiting    dependencies, estimate and funds are there: nonce and signature are written → Signed
               it cannot succeed, or its user gives it up → Ended, and no nonce was used
    Signed     the chain has it in its pool → Sent
    Sent       a block has one of its versions → Mined; nothing of it is there any more → sent again
    Mined      its block is deep enough → Ended; its block is gone → Sent
    Ended      the chain took back the final block that had it, or its nonce → Signed
    SetAside   an operator releases or drops it; one of its versions is mined for good → Ended
               (the database was wound back, so that it may have been sent or not: nothing is signed or sent for it)

A nonce that was assigned must be used, or all later ones wait forever. A user who cancels a transaction that has one
has an empty transaction of the account to itself sent in its place (a *withdrawal*); it ends when one of the two is
mined. When another program's transaction used the nonce, ours can not be mined any more, and it ends with that reason.
Two are set aside instead, and an operator decides whether they are signed again, with another nonce: one that had been
reported as ended before the chain took back its block, and one from an earlier run, as a database that was wound back
may have forgotten the version that was mined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

from rota.model.frozen import dataclass
from rota.model.types import AwaitedLeaf, ContractAddress, Dependency, Fees, IntentId, Outcome, Party

# Nodes require at least a tenth more before they replace a transaction by another.
REPLACEMENT_PERCENT: Final = 25
# A version that no block has taken for this long is signed again at a higher price.
REPRICE_MS: Final = 30_000
# The number of looks, and the time, for which the nonce must be used and no version of ours found, before the nonce
# counts as used by another program: behind one address there may be several Ethereum nodes, some of which are late.
TAKEN_LOOKS_MIN: Final = 5
TAKEN_MS_MIN: Final = 30_000
# The transaction runs later than its estimate, after others: a slot that was filled may be empty, and more.
GAS_TO_SPARE_PERCENT: Final = 50
GAS_TO_SPARE: Final = 25_000
VERSIONS_MAX: Final = 64
# Every update may add a version of its own, with its data.
UPDATES_MAX: Final = 16

NONCE_TAKEN: Final = "another transaction of its account was mined with its nonce"
CANCELLED: Final = "cancelled by its user"
NONCE_LOST: Final = "the chain took back the final block that had it, and another transaction has used its nonce since"
NONCE_FORGOTTEN: Final = (
    "another transaction of its account was mined with its nonce, perhaps a version of it that the database of this "
    "node has forgotten because it was wound back"
)
# None of its known versions can be mined any more.
NONCE_GONE: Final = (NONCE_LOST, NONCE_FORGOTTEN)
DROPPED_LOST: Final = "dropped by an operator, after the chain took back the final block that had it"
UPDATE_LATE: Final = "an update came too late: a block has a version from before it"
DROPPED: Final = "dropped by an operator, after its database was wound back: it may have happened before that"


class State(Enum):
    """State of a public transaction."""

    WAITING = "Waiting"
    SIGNED = "Signed"
    SENT = "Sent"
    MINED = "Mined"
    ENDED = "Ended"
    SET_ASIDE = "SetAside"


@dataclass(frozen=True, slots=True)
class Wish:
    """The user's gas and fees; fields that are not given are chosen here."""

    gas: int | None = None
    fee_max_wei: int | None = None
    tip_wei: int | None = None


@dataclass(frozen=True, slots=True)
class Version:
    """One signed form of it; all forms have one nonce. It performs update number `asked`, 0 is the first request."""

    fees: Fees
    gas: int
    raw: bytes
    hash: bytes
    signed_at_ms: int
    is_withdrawal: bool = False
    asked: int = 0


@dataclass(frozen=True, slots=True)
class Mined:
    """A version of it in a block."""

    hash: bytes
    height: int
    block_hash: bytes
    place: int
    has_succeeded: bool
    contract: ContractAddress | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a transaction. One that failed before it was sent has no block."""

    has_succeeded: bool
    ended_at_ms: int
    reason: str = ""
    revert_data: bytes = b""
    mined: Mined | None = None


@dataclass(frozen=True, slots=True)
class PublicTransaction:
    """The durable data of one. `number` orders those of a node; without `to` it creates a contract.

    `set_aside` is why an operator has to decide about it first. With `was_final` it was reported as ended before
    the chain took back a final block. Its user updated it `updates` times, and it performs update number `asked`:
    the latest, unless a block has an older version.
    """

    number: int
    id: IntentId
    sender: Party
    account: ContractAddress
    to: ContractAddress | None
    data: bytes
    value_wei: int
    created_at_ms: int
    wish: Wish = Wish()
    depends_on: tuple[IntentId, ...] = ()
    nonce: int | None = None
    versions: tuple[Version, ...] = ()
    given_up: str = ""
    ending: Ending | None = None
    set_aside: str = ""
    was_final: bool = False
    updates: int = 0
    asked: int = 0
    awaits: tuple[AwaitedLeaf, ...] = ()

    @property
    def dependencies(self) -> tuple[Dependency, ...]:
        """All transactions that must succeed first."""
        return (*self.depends_on, *self.awaits)


@dataclass(frozen=True, slots=True)
class Market:
    """The chain's present price for a unit of gas."""

    base_fee_wei: int
    price_wei: int


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the chain: its head, the account's used nonces now and at the confirmed depth, receipts.

    The receipts are those of our versions that are in blocks, by hash.
    """

    height: int
    used_now: int
    used_for_good: int
    receipts: Mapping[bytes, Mined]


class Verdict(Enum):
    """The result of a look for a transaction that has a nonce."""

    UNSEEN = "in no block"
    MINED = "in a block"
    FINAL = "in a block for good"
    TAKEN = "its nonce is used by a stranger"


def verdict_of(transaction: PublicTransaction, look: Look, confirmations: int) -> tuple[Verdict, Mined | None]:
    """Return the transaction's verdict by this look, and its receipt if a block has it."""
    assert transaction.nonce is not None, "what has no nonce cannot be in a block"
    mined = next((look.receipts[each.hash] for each in transaction.versions if each.hash in look.receipts), None)
    if mined is not None:
        is_deep = look.height - mined.height >= confirmations
        return (Verdict.FINAL if is_deep else Verdict.MINED), mined
    return (Verdict.TAKEN if look.used_for_good > transaction.nonce else Verdict.UNSEEN), None


def late_updates(transaction: PublicTransaction) -> int:
    """Return how many updates came too late: a block has an earlier version."""
    has_been_mined = transaction.ending is not None and transaction.ending.mined is not None
    return transaction.updates - transaction.asked if has_been_mined else 0


def is_update_unsigned(transaction: PublicTransaction) -> bool:
    """Whether it was updated, and all signed versions are from before that."""
    signed = transaction.versions
    return bool(signed) and not signed[-1].is_withdrawal and all(each.asked != transaction.asked for each in signed)


def version_to_send(transaction: PublicTransaction) -> Version:
    """Return the latest version that performs the present request; while an update is not signed, the latest of all.

    An update that was reported as too late is not sent, also when the chain took back that block: its user
    may have requested it again, as another transaction.
    """
    latest = transaction.versions[-1]
    if latest.is_withdrawal:
        return latest
    return next((each for each in reversed(transaction.versions) if each.asked == transaction.asked), latest)


def is_taken_for_good(looks: int, since_ms: int, now_ms: int, patience_ms: int = TAKEN_MS_MIN) -> bool:
    """Whether so many looks in a row, the first at `since_ms`, found the nonce used and no version of ours."""
    return looks >= TAKEN_LOOKS_MIN and now_ms - since_ms >= patience_ms


def next_nonce(used_and_waiting: int, open_: Iterable[PublicTransaction]) -> int:
    """Return the nonce after all that the chain knows, and after all that were assigned and have no known end."""
    given = (each.nonce + 1 for each in open_ if each.nonce is not None)
    return max((used_and_waiting, *given))


def fees_for(market: Market, wish: Wish, before: Fees | None, fee_max_wei: int) -> Fees:
    """Return the fees to offer: the user's, or the chain's price with room for it to rise; more than before.

    A chain without a price gets nothing, since its accounts may be empty. Offers of this node end at `fee_max_wei`.
    """
    tip = max(market.price_wei - market.base_fee_wei, 0)
    most = 2 * market.base_fee_wei + tip
    if before is not None:
        tip, most = max(tip, dearer(before.tip_wei)), max(most, dearer(before.most_wei))
    tip, most = min(tip, fee_max_wei), min(most, fee_max_wei)
    if wish.fee_max_wei is not None:
        most = wish.fee_max_wei
    if wish.tip_wei is not None:
        tip = wish.tip_wei
        most = max(most, tip) if wish.fee_max_wei is None else most
    return Fees(most, min(tip, most))


def dearer(price_wei: int) -> int:
    """Return the least price that replaces this one, with a margin; 0 for 0."""
    return price_wei * (100 + REPLACEMENT_PERCENT) // 100 + 1 if price_wei else 0


def is_repricing_due(transaction: PublicTransaction, market: Market, fee_max_wei: int, now_ms: int) -> bool:
    """Whether it offers too little for a block, or blocks pass it by, and more can be offered than before.

    Always False if its user named a price; the caller sets the price of a withdrawal.
    """
    latest = transaction.versions[-1]
    if len(transaction.versions) >= VERSIONS_MAX or (transaction.wish.fee_max_wei is not None):
        return False
    better = fees_for(market, transaction.wish, latest.fees, fee_max_wei)
    is_late = now_ms - latest.signed_at_ms >= REPRICE_MS
    is_short = latest.fees.most_wei < market.base_fee_wei
    return (is_late or is_short) and better.most_wei > latest.fees.most_wei and better.tip_wei >= latest.fees.tip_wei


def gas_for(estimate: int, block_limit: int) -> int:
    """Return the estimate with a margin, as far as a block has room; unused gas is not paid for."""
    return max(min(estimate * (100 + GAS_TO_SPARE_PERCENT) // 100 + GAS_TO_SPARE, block_limit), estimate)


def cost_max_wei(gas: int, fees: Fees, value_wei: int) -> int:
    """Return the most that its account needs."""
    return gas * fees.most_wei + value_wei


def failed_dependency(
    transaction: PublicTransaction,
    own: Mapping[IntentId, Outcome],
    leaves: Mapping[AwaitedLeaf, Outcome],
    final_time_s: int,
) -> tuple[Dependency | None, tuple[Dependency, ...]]:
    """Return the first dependency that failed or is too late, or None, and those that have not ended."""
    outcomes: dict[Dependency, Outcome] = {each: own[each] for each in own}
    outcomes |= {each: leaves[each] for each in leaves}
    missing = tuple(each for each in transaction.dependencies if each not in outcomes)
    late = (each for each in missing if isinstance(each, AwaitedLeaf) and each.valid_until_s < final_time_s)
    failed = (each for each in transaction.dependencies if outcomes.get(each) is Outcome.REVERTED)
    return next(failed, next(late, None)), missing


def ending_of(transaction: PublicTransaction, mined: Mined, now_ms: int, reason: str, revert_data: bytes) -> Ending:
    """Return the ending for a final block; a mined withdrawal ends a transaction that was cancelled."""
    withdrawn = any(each.is_withdrawal for each in transaction.versions if each.hash == mined.hash)
    if withdrawn:
        return Ending(False, now_ms, transaction.given_up or CANCELLED)
    if mined.has_succeeded:
        return Ending(True, now_ms, mined=mined)
    return Ending(False, now_ms, reason or "the transaction failed", revert_data, mined)
