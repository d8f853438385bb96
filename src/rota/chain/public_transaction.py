"""A user's transaction on the base ledger itself, from its acceptance to its end; decisions only.

Theory of operation. It is durable before its user has an id. It waits until what it depends on has ended well, until
it can be estimated and until its account can pay. Then it takes the account's next nonce and is signed; nonce and
signed bytes are durable before they are sent, and the same bytes are sent again until a block uses the nonce. What
blocks pass by is signed anew for more, under the same nonce: whichever version is mined, it is the only one. A receipt
is believed when its block is as deep as the node's confirmations ask for, and is looked up anew until then, so that a
reorganisation only leads back to sending.

    state      leaves it when
    Waiting    dependencies, estimate and funds are there: nonce and signature are written → Signed
               it cannot succeed, or its user gives it up → Ended, and no nonce was used
    Signed     the chain has it in its pool → Sent
    Sent       a block has one of its versions → Mined; nothing of it is there any more → sent again
    Mined      its block is deep enough → Ended; its block is gone → Sent
    Ended      the chain took back the final block that had it, or its nonce → Signed
    SetAside   an operator releases or drops it; one of its versions is mined for good → Ended
               (the database was wound back, so that nobody knows whether it was sent: nothing is signed or sent for it)

A nonce that was given must be used, or all that follow wait for ever. Who gives up a transaction that has one sends
an empty transaction of the account to itself in its place (a *withdrawal*), and ends when one of the two is mined.
When a stranger's transaction used the nonce, none of ours can be mined any more, and it ends with that reason. Two are
set aside instead, and an operator decides whether they are signed again, with another nonce: one that had been reported
as ended before the chain took back its block, and one from an earlier run, as a database that was wound back may have
forgotten the version that was mined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

from rota.model.frozen import dataclass
from rota.model.types import AwaitedLeaf, ContractAddress, Dependency, Fees, IntentId, Outcome, Party

# Nodes ask for at least a tenth more before they take one transaction for another.
REPLACEMENT_PERCENT: Final = 25
# A version that no block has taken for so long is offered for more.
REPRICE_MS: Final = 30_000
# So often, and for so long, must the nonce be used and nothing of ours be found, before a stranger is believed to have
# used it: behind one address there may be several Ethereum nodes, some of which are late.
TAKEN_LOOKS_MIN: Final = 5
TAKEN_MS_MIN: Final = 30_000
# What is estimated now runs later, on what others have done by then: a slot that was filled may be empty, and more.
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
    """Where a public transaction is."""

    WAITING = "Waiting"
    SIGNED = "Signed"
    SENT = "Sent"
    MINED = "Mined"
    ENDED = "Ended"
    SET_ASIDE = "SetAside"


@dataclass(frozen=True, slots=True)
class Wish:
    """What its user wants of gas and fees; what is not given is for us to say."""

    gas: int | None = None
    fee_max_wei: int | None = None
    tip_wei: int | None = None


@dataclass(frozen=True, slots=True)
class Version:
    """One signed form of it; all forms have one nonce. It does what update number `asked` asks for, 0 the first."""

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
    """How it ended. What failed before it was sent has no block."""

    has_succeeded: bool
    ended_at_ms: int
    reason: str = ""
    revert_data: bytes = b""
    mined: Mined | None = None


@dataclass(frozen=True, slots=True)
class PublicTransaction:
    """All that is durable of it. `number` orders those of a node; without `to` it makes a contract.

    `set_aside` says why an operator has to decide about it first. With `was_final` it was reported as ended before
    the chain took back a final block. Its user updated it `updates` times, and it does what update number `asked` asks
    for: the latest, unless a block has an older version.
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
        """All that must succeed first."""
        return (*self.depends_on, *self.awaits)


@dataclass(frozen=True, slots=True)
class Market:
    """What the chain asks for a unit of gas now."""

    base_fee_wei: int
    price_wei: int


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at the chain showed: its head, the account's used nonces now and at the confirmed depth, receipts.

    The receipts are those of our versions that are in blocks, by hash.
    """

    height: int
    used_now: int
    used_for_good: int
    receipts: Mapping[bytes, Mined]


class Verdict(Enum):
    """What a look says of a transaction that has a nonce."""

    UNSEEN = "in no block"
    MINED = "in a block"
    FINAL = "in a block for good"
    TAKEN = "its nonce is used by a stranger"


def verdict_of(transaction: PublicTransaction, look: Look, confirmations: int) -> tuple[Verdict, Mined | None]:
    """What became of it, by this look."""
    assert transaction.nonce is not None, "what has no nonce cannot be in a block"
    mined = next((look.receipts[each.hash] for each in transaction.versions if each.hash in look.receipts), None)
    if mined is not None:
        is_deep = look.height - mined.height >= confirmations
        return (Verdict.FINAL if is_deep else Verdict.MINED), mined
    return (Verdict.TAKEN if look.used_for_good > transaction.nonce else Verdict.UNSEEN), None


def late_updates(transaction: PublicTransaction) -> int:
    """How many updates came too late: a block has a version from before them."""
    has_been_mined = transaction.ending is not None and transaction.ending.mined is not None
    return transaction.updates - transaction.asked if has_been_mined else 0


def is_update_unsigned(transaction: PublicTransaction) -> bool:
    """It was updated, and all that is signed is from before that."""
    signed = transaction.versions
    return bool(signed) and not signed[-1].is_withdrawal and all(each.asked != transaction.asked for each in signed)


def version_to_send(transaction: PublicTransaction) -> Version:
    """The latest that does what it asks for now; while an update is not signed, the latest of all.

    An update that was reported as too late is not sent, also when the chain took back the block that said so: its user
    may have asked for it again, as another transaction.
    """
    latest = transaction.versions[-1]
    if latest.is_withdrawal:
        return latest
    return next((each for each in reversed(transaction.versions) if each.asked == transaction.asked), latest)


def is_taken_for_good(looks: int, since_ms: int, now_ms: int, patience_ms: int = TAKEN_MS_MIN) -> bool:
    """So many looks in a row, the first of them then, found the nonce used and nothing of ours."""
    return looks >= TAKEN_LOOKS_MIN and now_ms - since_ms >= patience_ms


def next_nonce(used_and_waiting: int, open_: Iterable[PublicTransaction]) -> int:
    """The one that follows all that the chain knows of, and all that we gave and whose end we do not know."""
    given = (each.nonce + 1 for each in open_ if each.nonce is not None)
    return max((used_and_waiting, *given))


def fees_for(market: Market, wish: Wish, before: Fees | None, fee_max_wei: int) -> Fees:
    """What is offered now: what the user wants, or what the chain asks with room for it to rise; more than before.

    A chain that asks nothing gets nothing, since its accounts may have nothing. Our own offers end at `fee_max_wei`.
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
    """The least that replaces an offer of this price, with some to spare; nothing is replaced by nothing."""
    return price_wei * (100 + REPLACEMENT_PERCENT) // 100 + 1 if price_wei else 0


def is_repricing_due(transaction: PublicTransaction, market: Market, fee_max_wei: int, now_ms: int) -> bool:
    """A block needs more than it offers, or blocks pass it by; and more can be offered than before.

    Who named his own price waits for it, unless it is to be withdrawn.
    """
    latest = transaction.versions[-1]
    if len(transaction.versions) >= VERSIONS_MAX or (transaction.wish.fee_max_wei is not None):
        return False
    better = fees_for(market, transaction.wish, latest.fees, fee_max_wei)
    is_late = now_ms - latest.signed_at_ms >= REPRICE_MS
    is_short = latest.fees.most_wei < market.base_fee_wei
    return (is_late or is_short) and better.most_wei > latest.fees.most_wei and better.tip_wei >= latest.fees.tip_wei


def gas_for(estimate: int, block_limit: int) -> int:
    """The estimate with some to spare, as far as a block has room; what is not used is not paid for."""
    return max(min(estimate * (100 + GAS_TO_SPARE_PERCENT) // 100 + GAS_TO_SPARE, block_limit), estimate)


def cost_max_wei(gas: int, fees: Fees, value_wei: int) -> int:
    """What its account must have."""
    return gas * fees.most_wei + value_wei


def failed_dependency(
    transaction: PublicTransaction,
    own: Mapping[IntentId, Outcome],
    leaves: Mapping[AwaitedLeaf, Outcome],
    final_time_s: int,
) -> tuple[Dependency | None, tuple[Dependency, ...]]:
    """The first that it depends on and that did not succeed or is too late, and those that have not ended."""
    outcomes: dict[Dependency, Outcome] = {each: own[each] for each in own}
    outcomes |= {each: leaves[each] for each in leaves}
    missing = tuple(each for each in transaction.dependencies if each not in outcomes)
    late = (each for each in missing if isinstance(each, AwaitedLeaf) and each.valid_until_s < final_time_s)
    failed = (each for each in transaction.dependencies if outcomes.get(each) is Outcome.REVERTED)
    return next(failed, next(late, None)), missing


def ending_of(transaction: PublicTransaction, mined: Mined, now_ms: int, reason: str, revert_data: bytes) -> Ending:
    """What is told of it when a block has it for good; a withdrawal that is mined is the end of what was given up."""
    withdrawn = any(each.is_withdrawal for each in transaction.versions if each.hash == mined.hash)
    if withdrawn:
        return Ending(False, now_ms, transaction.given_up or CANCELLED)
    if mined.has_succeeded:
        return Ending(True, now_ms, mined=mined)
    return Ending(False, now_ms, reason or "the transaction failed", revert_data, mined)
