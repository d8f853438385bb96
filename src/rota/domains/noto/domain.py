"""Notary tokens. A notary's node coordinates and endorses; holders' nodes assemble what their parties ask for.

A transition spends coins or one lock, makes coins or locks, and tells the notary what was asked for. The notary works
out from that what should be spent and made (`operations`), and signs only if it is exactly that: nobody overspends,
nobody spends another's, and every state goes to those who may see it and to nobody else. That no coin is spent twice
is for the ledger to see to.

Who sees what: a coin its owner, who paid it and the notary; a lock its owner and the notary; a promise of a prepared
lock the owner, the recipient and the notary; what was asked for, the sender, whose coins it spends and the notary, and
the receiver of a mint or transfer, who knows it anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import ClassVar, Final

import msgspec

from rota.domains.available import Available, Known, cover_in_order
from rota.domains.base import (
    INPUTS_MAX,
    NOT_ACTIVE,
    Assembled,
    Assembly,
    AttestationPlan,
    Carrier,
    Carrying,
    CarryingCall,
    Deployment,
    Domain,
    NewState,
    Outcome,
    Parked,
    Proposal,
    ProvedLedger,
    Question,
    Refused,
    Rejected,
    Request,
    Reverted,
    Settled,
    party_of,
    unknown_elsewhere,
)
from rota.domains.contents import Role
from rota.domains.locking import Permitted, StandsFor, word_of
from rota.domains.noto.hook_records import NO_HOOKS, HookOptions, HookRequested, Hooks
from rota.domains.noto.hooks import (
    HOOKED_OPTIONS,
    HOOKED_OPTIONS_WITHOUT_LOCKS,
    asked_by,
    call_of,
    carrier_of,
    ended_lock_of,
    hooks_in,
    notice_of,
    parties_in,
    parties_of_end,
    require_hooked,
)
from rota.domains.noto.locks import rules_of
from rota.domains.noto.operations import (
    RULES,
    Asked,
    FromCoins,
    FromLock,
    FromNothing,
    Made,
    Spent,
    lock_id_of,
    parties_of,
    whole,
)
from rota.domains.noto.receipts import receipt_of
from rota.domains.noto.records import (
    NO_CONDITION,
    Account,
    Attached,
    BasicOptions,
    Coin,
    Configuration,
    Constructor,
    EndLock,
    Lock,
    Nothing,
    Payment,
    Promised,
    RecordedLock,
    Released,
    Requested,
    TransferFrom,
)
from rota.domains.records import Record, packed, unpacked
from rota.model.json_text import NotJson, read_json
from rota.model.types import Contract, ContractAddress, Mode, Party, Preparation, StateId, SubmitMode, node_of

DECIMALS: Final = 4
NAME_BYTES_MAX: Final = 255
# With locks that have a public side; its code is not that of `Endorsed`.
LEDGER: Final = ProvedLedger("NotaryLedger", ())
# A node's setting, and what it is about.
PARK_TRANSFERS: Final = "park_transfers"
# The states that are locks.
LOCKS: Final = (Lock, RecordedLock)
NOTARY_MODES: Final = ("basic", "hooks")
TRANSFERS: Final = ("transfer", "transferFrom")


class Noto(Domain[Configuration]):
    """See the module."""

    name = "noto"
    constructor = Constructor
    configuration = Configuration
    functions: ClassVar[Mapping[str, type[Record]]] = {name: rule.arguments for name, rule in RULES.items()}
    views: ClassVar[Mapping[str, type[Record]]] = {
        "balanceOf": Account,
        "name": Nothing,
        "symbol": Nothing,
        "decimals": Nothing,
    }
    states = (Coin, Lock, Requested, Attached, Promised, RecordedLock, Released, Permitted, HookRequested)
    changes_locks = True

    def __init__(self) -> None:
        self._parks_transfers = False

    def set_up(self, settings: Mapping[str, object]) -> None:
        """`park_transfers = true`: transfers of this node's parties wait for funds instead of being reverted."""
        given = dict(settings)
        parks = given.pop(PARK_TRANSFERS, False)
        if not isinstance(parks, bool):
            raise Rejected(PARK_TRANSFERS, f"must be true or false, not {parks!r}")
        self._parks_transfers = parks
        super().set_up(given)

    def deploy(self, arguments: Record, sender: Party) -> Deployment[Configuration]:
        """The notary's node coordinates and endorses."""
        assert isinstance(arguments, Constructor)
        if arguments.notary_mode not in NOTARY_MODES:
            raise Rejected("notaryMode", f"must be {' or '.join(NOTARY_MODES)}, not {arguments.notary_mode!r}")
        for field, text in (("name", arguments.name), ("symbol", arguments.symbol)):
            if len(text.encode()) > NAME_BYTES_MAX:
                raise Rejected(field, f"must be at most {NAME_BYTES_MAX} bytes")
        notary = party_of("notary", arguments.notary, node_of(sender))
        configuration = Configuration(arguments.name, arguments.symbol, notary, *_options_of(arguments, notary))
        return Deployment(AttestationPlan.notary(notary), configuration, tuple(dict.fromkeys((notary, sender))))

    def configure(self, configuration: Configuration, contract: Contract) -> None:
        """The notary's node, and no other, coordinates and endorses."""
        notary = (node_of(configuration.notary),)
        party_of("configuration.notary", configuration.notary, notary[0])
        is_right = contract.committee == contract.endorsers == notary and contract.threshold == 1
        if not is_right or contract.mode is not Mode.STATIC:
            raise Rejected(
                "configuration.notary", f"must be of the one node that coordinates and endorses: {notary[0]}"
            )
        options = HOOKED_OPTIONS if configuration.public_locks else HOOKED_OPTIONS_WITHOUT_LOCKS
        if configuration.hooks != NO_HOOKS and configuration.options != options:
            raise Rejected("configuration.options", "must be those of a token with hooks: the hook decides")

    def ledger_of(self, configuration: Configuration) -> ProvedLedger | None:
        """Tokens whose locks are private states have the ledger of all contracts that endorsers sign for."""
        return LEDGER if configuration.public_locks else None

    def stands_for(self, record: Record) -> StandsFor | None:
        """A recorded lock ends with its record."""
        if not isinstance(record, RecordedLock):
            return None
        return StandsFor(record.permit, record.lock_id, record.expires_at)

    def init(self, request: Request[Configuration]) -> tuple[Party, ...]:
        """Who may ask for it at all, and with what amounts."""
        asked = _asked(request.configuration, request.sender, request.function, request.arguments)
        if request.configuration.hooks != NO_HOOKS:
            require_hooked(request.configuration, request.function)
        rules_of(asked)[asked.function].needs(asked)
        return parties_of(asked)

    # Assembling.

    def assemble(self, work: Assembly[Configuration]) -> Outcome:
        """Select what is spent, and make of it what the rules say."""
        asked = _asked(work.configuration, work.sender, work.function, work.arguments)
        chosen = self._choose(work, asked)
        if isinstance(chosen, Reverted | Parked):
            return chosen
        spends, spent = chosen
        made = rules_of(asked)[asked.function].makes(asked, spent)
        return Assembled(spends, makes=made.states, info=(*made.infos, *_request_told(asked)), lock=made.lock)

    def _choose(
        self, work: Assembly[Configuration], asked: Asked
    ) -> tuple[tuple[StateId, ...], Spent] | Reverted | Parked:
        spent = Spent(lock_id_of(work.separator, work.intent), word_of(work.separator, work.intent))
        match rules_of(asked)[asked.function].needs(asked):
            case FromCoins(owner, amount):
                coins = work.states.largest_first(Coin, "owner", owner)
                selection = cover_in_order(coins, amount, lambda coin: coin.amount, INPUTS_MAX)
                if selection is None:
                    lacking = _too_little(work.states, owner)
                    waits = self._parks_transfers and asked.function in TRANSFERS
                    return Parked(f"{lacking.reason}; resume it when there are funds") if waits else lacking
                return tuple(coin.id for coin in selection.coins), replace(spent, change=selection.change)
            case FromLock(wanted):
                found = _locks_with(work.states, wanted)
                if not found and any(work.states.is_withheld(kind, lock_id=wanted) for kind in LOCKS):
                    words = "a prepared transaction has it, and waits for its committer"
                    return Reverted(f"PD200028: Lock ID not found: {words}", NOT_ACTIVE)
                if not found:
                    return Reverted("PD200028: Lock ID not found", NOT_ACTIVE)
                preparation = self.prepare(work) if work.submit_mode is SubmitMode.EXTERNAL else None
                return (found[0].id,), replace(spent, lock=found[0].record, committer=_committer(preparation))
            case FromNothing():
                return (), spent

    def prepare(self, work: Assembly[Configuration]) -> Preparation | None:
        """What ends a lock that was delegated to an address is for that address to commit."""
        if not isinstance(work.arguments, EndLock):
            return None
        wanted = work.arguments.lock_id
        found = work.states.where(Lock, lock_id=wanted)
        if not found or found[0].record.spender == found[0].record.owner:
            return None
        return Preparation(ContractAddress(found[0].record.spender), work.arguments.condition)

    # Endorsing.

    def endorse(self, proposal: Proposal[Configuration]) -> None:
        """What the rules make of the request, and nothing else."""
        told = proposal.told(Requested)
        rule = RULES.get(told.function)
        if rule is None:
            raise Refused(f"PD200001: Unknown function: {told.function}")
        if proposal.configuration.hooks != NO_HOOKS:
            require_hooked(proposal.configuration, told.function)
        arguments = _arguments_of(rule.arguments, told.arguments)
        asked = _asked(proposal.configuration, proposal.sender, told.function, arguments)
        spent = _spent(asked, proposal)
        if proposal.reads:
            raise Refused("nothing is read")
        expected = rules_of(asked)[told.function].makes(asked, spent)
        if proposal.makes != _all_of(expected, asked):
            raise Refused(f"what is made is not what {told.function} makes")
        if proposal.lock != expected.lock:
            raise Refused(f"what becomes of a lock on the ledger is not what {told.function} makes of it")

    # Being carried out by a hook.

    def carrier(self, configuration: Configuration) -> Carrier | None:
        """The hook's group, if it has a hook."""
        return carrier_of(configuration)

    def parties_to_carry(self, work: Carrying[Configuration]) -> tuple[Party, ...]:
        """All that the hook is given the addresses of."""
        return parties_in(work)

    def carry(self, work: Carrying[Configuration]) -> CarryingCall:
        """The notary's call of the hook."""
        return call_of(work)

    def ended_lock(self, work: Carrying[Configuration]) -> bytes | None:
        """A transition that a lock permits names the lock."""
        return ended_lock_of(work)

    def parties_to_notify(self, work: Carrying[Configuration]) -> tuple[Party, ...]:
        """Who got coins from the lock."""
        return parties_of_end(work)

    def notify(self, work: Carrying[Configuration], delegate: ContractAddress) -> CarryingCall:
        """The notary's call of `handleDelegateUnlock`."""
        return notice_of(work, delegate)

    # Asking.

    def call(self, question: Question[Configuration]) -> object:
        """What the token is, and the balance of an account as far as this node sees it; the notary's sees it whole."""
        match question.arguments:
            case Account(account):
                return _balance(question, party_of("account", account, node_of(question.asker)))
            case _:
                told = question.configuration
                return {"0": {"name": told.name, "symbol": told.symbol, "decimals": str(DECIMALS)}[question.function]}

    def receipt(self, settled: Settled[Configuration]) -> dict[str, object]:
        """Who paid whom, as far as this node may see it."""
        return receipt_of(settled)


def _options_of(arguments: Constructor, notary: Party) -> tuple[BasicOptions, bool, Hooks]:
    """What holders may do, whether locks are on the ledger, and the hooks. Locks of a token with hooks are there."""
    options = arguments.options
    if arguments.notary_mode == "hooks":
        return HOOKED_OPTIONS, True, hooks_in(options.hooks, notary)
    if options.hooks != HookOptions():
        raise Rejected("options.hooks", "must be left out unless notaryMode is hooks")
    return options.basic, options.public_locks, NO_HOOKS


def _asked(configuration: Configuration, sender: Party, function: str, arguments: Record) -> Asked:
    return Asked(configuration, sender, function, whole(arguments, sender))


def _request_told(asked: Asked) -> tuple[NewState, ...]:
    """For the notary and the sender, and for a single receiver, who knows all of it anyway: so it rides on its coin."""
    arguments = asked.arguments
    if isinstance(arguments, EndLock):
        # The condition is made of the core, so that the core cannot tell it; the leaf binds it.
        arguments = replace(arguments, condition=NO_CONDITION)
    written = msgspec.json.encode(packed(arguments)).decode()
    receiver = (asked.arguments.to,) if isinstance(asked.arguments, Payment | TransferFrom) else ()
    payer = getattr(asked.arguments, "from_", asked.sender)
    readers = tuple(dict.fromkeys((asked.configuration.notary, payer, *receiver, asked.sender)))
    requested = NewState(Requested(asked.function, written), readers, Role.INFO)
    return (requested, *asked_by(asked.configuration, asked.sender, readers))


def _all_of(made: Made, asked: Asked) -> tuple[NewState, ...]:
    return (*made.states, *made.infos, *_request_told(asked))


def _arguments_of(arguments_type: type[Record], written: str) -> Record:
    try:
        return unpacked(arguments_type, read_json(written), "arguments")
    except NotJson:
        raise Refused("the request cannot be read") from None


def _committer(preparation: Preparation | None) -> str:
    return str(preparation.committer) if preparation is not None else ""


def _spent(asked: Asked, proposal: Proposal[Configuration]) -> Spent:
    """What is spent must be what the request needs, and no more kinds of things."""
    spent = Spent(lock_id_of(proposal.separator, proposal.intent), word_of(proposal.separator, proposal.intent))
    records = [state.record for state in proposal.spends]
    match rules_of(asked)[asked.function].needs(asked):
        case FromCoins(owner, amount):
            total = sum(_worth(record, owner) for record in records)
            if total < amount:
                raise Refused(f"PD200013: Invalid amount for 'inputs': expected={amount} actual={total}")
            return replace(spent, change=total - amount)
        case FromLock(wanted):
            if len(records) != 1 or not isinstance(records[0], LOCKS) or records[0].lock_id != wanted:
                raise Refused("PD200028: Lock ID not found")
            return replace(spent, lock=records[0], committer=_committer(proposal.preparation))
        case FromNothing():
            if records:
                raise Refused(f"{asked.function} spends nothing")
            return spent


def _locks_with(states: Available, lock_id: bytes) -> list[Known[Lock] | Known[RecordedLock]]:
    return [*states.where(Lock, lock_id=lock_id), *states.where(RecordedLock, lock_id=lock_id)]


def _worth(record: Record, owner: Party) -> int:
    if not isinstance(record, Coin):
        raise Refused("PD200012: Invalid inputs: only coins can be spent so")
    if record.owner != owner:
        raise Refused(f"PD200018: State is not owned by '{owner}'")
    return record.amount


def _too_little(states: Available, owner: Party) -> Reverted:
    count, total = states.total(Coin, "owner", owner)
    if count <= INPUTS_MAX:
        return Reverted(f"PD200005: Insufficient funds (available={total})")
    largest = sum(coin.record.amount for coin in islice(states.largest_first(Coin, "owner", owner), INPUTS_MAX))
    words = f"{INPUTS_MAX} coins are spent at once, which are worth {largest} here; the balance is {total}"
    return Reverted(f"PD200005: Insufficient funds (available={total}): at most {words}; join coins first")


def _balance(question: Question[Configuration], account: Party) -> dict[str, object]:
    count, total = question.states.total(Coin, "owner", account)
    told = {"totalStates": str(count), "totalBalance": str(total), "overflow": False}
    return told | unknown_elsewhere(question.asker, (question.configuration.notary, account))
