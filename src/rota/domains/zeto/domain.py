"""Zero-knowledge tokens: nobody endorses, every owner coordinates its own transactions, and the chain checks a proof.

Theory of operation. A coin is a state of the ledger like any other: its hash is an output, its owner's node has its
bytes. Beside the hash stands a commitment to what it is worth and whose it is (`coins.py`), which is all that a proof
speaks of (decision 130). What is assembled here is proved before it counts as signed: `statement` says what.

Only who makes and who gets a coin ever see it. The issuer's node signs for coins that are made of nothing, and learns
of no others. Change is spent before it is confirmed, by whoever made it: nobody else knows of it yet.

Coins are made of a public token too, if the contract was given one, and turned into it (`reserve.py`).

A circuit takes two coins and makes two, so that a transfer pays one party and gives the rest back. Its large form takes
ten and makes eight, which takes longer to prove: for whoever pays several at once, or has many small coins. With more
than ten of them they are joined first, by paying oneself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import ClassVar, Final

from rota.domains.available import Available, Known, cover
from rota.domains.base import (
    Assembled,
    Assembly,
    AttestationPlan,
    Claim,
    Deployment,
    Domain,
    NewState,
    Outcome,
    Proposal,
    ProvedLedger,
    Question,
    Recipient,
    Refused,
    Rejected,
    Request,
    Reverted,
    Settled,
    party_of,
)
from rota.domains.contents import Role
from rota.domains.records import Record
from rota.domains.zeto.babyjubjub import SCALAR_BITS, Point, compress, decompress, key_of
from rota.domains.zeto.circuits import INPUTS_MAX, Kind, Spent, Statement
from rota.domains.zeto.coins import VALUE_MAX, Coin, net_of
from rota.domains.zeto.encryption import decrypt, encrypt
from rota.domains.zeto.field import ORDER
from rota.domains.zeto.records import (
    NO_ADDRESS,
    Account,
    Configuration,
    Constructor,
    Deposit,
    Lock,
    Mint,
    Payment,
    Transfer,
    TransferLocked,
    Withdraw,
    ZetoCoin,
    ZetoMemo,
)
from rota.domains.zeto.reserve import (
    MOVE_GAS,
    deposit_call,
    explained,
    is_deposit,
    moved_by,
    require_reserve,
    sets_token,
    shortage_of,
    withdrawal_call,
)
from rota.types import Call, Contract, ContractAddress, Mode, Party, Preparation, SubmitMode, address_bytes, node_of

ANON: Final = "Zeto_Anon"
LEDGERS: Final[Mapping[str, ProvedLedger]] = {ANON: ProvedLedger("Proved", ("VerifierAnon2x2", "VerifierAnon10x8"))}
MINTS_MAX: Final = 15
OUTPUTS_MAX: Final = 8
NO_CONDITION: Final = bytes(32)
KEYS_KEPT_MAX: Final = 4_096


class Zeto(Domain[Configuration]):
    """The domain."""

    name: ClassVar[str] = "zeto"
    constructor = Constructor
    configuration = Configuration
    functions: ClassVar[Mapping[str, type[Record]]] = {
        "mint": Mint,
        "transfer": Transfer,
        "lock": Lock,
        "transferLocked": TransferLocked,
        "deposit": Deposit,
        "withdraw": Withdraw,
    }
    views: ClassVar[Mapping[str, type[Record]]] = {"balanceOf": Account}
    states = (ZetoCoin, ZetoMemo)
    ledgers = tuple(LEDGERS.values())
    is_encrypted = True
    moving = frozenset(("deposit", "withdraw"))
    has_pages = False
    calls_gas_max = MOVE_GAS

    # Contracts.

    def deploy(self, arguments: Record, sender: Party) -> Deployment[Configuration]:
        """Who deploys a token issues it."""
        assert isinstance(arguments, Constructor), "the constructor's own record"
        if arguments.token_name not in LEDGERS:
            raise Rejected("tokenName", f"must be {' or '.join(LEDGERS)}, not {arguments.token_name!r}")
        configuration = Configuration(arguments.token_name, sender)
        return Deployment(AttestationPlan.proofs(sender), configuration, (sender,))

    def configure(self, configuration: Configuration, contract: Contract) -> None:
        """Its issuer's node signs for new coins, and nobody for anything else."""
        if configuration.token_name not in LEDGERS:
            raise Rejected("tokenName", f"must be {' or '.join(LEDGERS)}, not {configuration.token_name!r}")
        issuer = (node_of(configuration.issuer),)
        if contract.mode is not Mode.SENDER or contract.threshold or contract.endorsers != issuer:
            raise Rejected("endorsers", f"must be {issuer[0]} alone, which signs for new coins, and none may have to")

    def ledger_of(self, configuration: Configuration) -> ProvedLedger:
        """Each kind has its own."""
        return LEDGERS[configuration.token_name]

    # Transactions.

    def init(self, request: Request[Configuration]) -> tuple[Party, ...]:
        """Everybody who gets a coin must be known by the key that owns it."""
        sender, arguments = request.sender, request.arguments
        match arguments:
            case Mint(mints):
                if sender != request.configuration.issuer:
                    raise Rejected("from", f"must be {request.configuration.issuer}, who issues this token")
                return (sender, *_receivers("mints", mints, MINTS_MAX, sender))
            case Transfer(transfers):
                return (sender, *_receivers("transfers", transfers, OUTPUTS_MAX, sender))
            case Deposit(amount) | Withdraw(amount):
                _require_amount("amount", amount)
                return (sender,)
            case Lock(amount, delegate):
                _require_amount("amount", amount)
                if delegate == NO_ADDRESS:
                    raise Rejected("delegate", "must be an address that can commit, not zero")
                return (sender,)
            case _:
                assert isinstance(arguments, TransferLocked), f"zeto has no {request.function}"
                if request.submit_mode is not SubmitMode.EXTERNAL:
                    raise Rejected("submitMode", "must be external: only the delegate of a lock can commit it")
                if not 1 <= len(arguments.locked_inputs) <= INPUTS_MAX[Kind.ANON]:
                    raise Rejected("lockedInputs", f"must be 1 to {INPUTS_MAX[Kind.ANON]} coins")
                return (sender, *_receivers("transfers", arguments.transfers, OUTPUTS_MAX, sender))

    def assemble(self, work: Assembly[Configuration]) -> Outcome:
        """Which coins are spent, and which are made of them."""
        match work.arguments:
            case Mint(mints):
                paid = [_coin_for(work, payment) for payment in mints]
                return Assembled(makes=tuple(paid), info=_told(mints, work.sender))
            case Transfer(transfers):
                return _paid(work, transfers, _free_coins(work.states, work.sender, work.verifiers))
            case Lock(amount, delegate):
                coins = _free_coins(work.states, work.sender, work.verifiers)
                return _paid(work, (Payment(work.sender, amount),), coins, delegate)
            case Deposit(amount):
                return _deposited(work, amount)
            case Withdraw(amount):
                return _withdrawn(work, amount)
            case _:
                assert isinstance(work.arguments, TransferLocked), f"zeto has no {work.function}"
                return _paid_from_lock(work, work.arguments)

    def prepare(self, work: Assembly[Configuration]) -> Preparation | None:
        """What spends a lock is its delegate's to commit."""
        if not isinstance(work.arguments, TransferLocked):
            return None
        return Preparation(_locked(work, work.arguments)[0].record.delegate, NO_CONDITION)

    def endorse(self, proposal: Proposal[Configuration]) -> None:
        """The chain judges, and nobody else is shown anything."""
        raise Refused("nobody endorses a zero-knowledge token: its ledger wants proofs")

    # Proofs.

    def verifier_of(self, secret: bytes) -> str:
        """The compressed key of an owner."""
        return "0x" + compress(_key_of(_scalar_of(secret))).hex()

    def commitments(self, made: tuple[tuple[Record, bytes], ...]) -> tuple[bytes, ...]:
        """Of each coin the one that its proof speaks of."""
        return tuple(_opened(record, salt).commitment.to_bytes(32, "big") for record, salt in made)

    def statement(self, claim: Claim[Configuration]) -> Statement | None:
        """What is spent and comes in is worth what is made and leaves. For a mint the issuer signs instead."""
        if not claim.spends and claim.makes and not claim.calls:
            return None
        return Statement(
            Kind.ANON,
            _scalar_of(claim.secret) if claim.spends else 0,
            tuple(Spent(_opened(known.record, known.salt)) for known in claim.spends),
            tuple(_opened(known.record, known.salt) for known in claim.makes),
            int.from_bytes(claim.binding, "big") % ORDER,
            net=net_of(*moved_by(claim.calls)),
            delegate=int(claim.preparation.committer, 16) if claim.preparation is not None else 0,
        )

    def is_signed_too(self, claim: Claim[Configuration]) -> bool:
        """Nobody deposits another's tokens."""
        return any(map(is_deposit, claim.calls))

    def is_issuers(self, configuration: Configuration, sender: Party, call: bytes) -> bool:
        """Who issues the coins says what they are made of."""
        return sender == configuration.issuer and sets_token(call)

    # Encryption.

    def encrypt(self, content: bytes, record: Record | None, recipient: Recipient, entropy: bytes) -> bytes:
        """To the key that owns the coin; what is told with it goes to the same party."""
        if not isinstance(record, ZetoCoin) or record.owner != recipient.party:
            raise Rejected("state", f"must be a coin of {recipient.party}, whose key is in it")
        try:
            key = _point_of(record.owner_key)
        except ValueError as error:
            raise Rejected("state", f"must have the key of {recipient.party}: {error}") from None
        return encrypt(content, key, _scalar_of(entropy), _about(recipient))

    def decrypt(self, encrypted: bytes, recipient: Recipient, secret: bytes) -> bytes:
        """By the scalar of its owner."""
        return decrypt(encrypted, _scalar_of(secret), _about(recipient))

    # Questions.

    def call(self, question: Question[Configuration]) -> object:
        """What an account of this node has; of others nothing is known here."""
        assert isinstance(question.arguments, Account), "the only view"
        account = party_of("account", question.arguments.account, node_of(question.asker))
        coins = _free_coins(question.states, account, question.verifiers)
        total = sum(coin.record.amount for coin in coins)
        return {"totalStates": str(len(coins)), "totalBalance": str(total), "overflow": False}

    def receipt(self, settled: Settled[Configuration]) -> dict[str, object]:
        """The coins that this node may see; a locked one is named by its commitment in `transferLocked`."""
        made = [_shown(known) for known in settled.made if isinstance(known.record, ZetoCoin)]
        told = [known.record.data for known in settled.told if isinstance(known.record, ZetoMemo)]
        return {"coins": made, "data": ["0x" + data.hex() for data in told]}

    def explain(self, arguments: Record, revert: bytes) -> str | None:
        """Why a public token refused to be moved."""
        return explained(revert)


# Users.


def _receivers(field: str, payments: tuple[Payment, ...], count_max: int, sender: Party) -> list[Party]:
    """Who is paid, and that everybody can be paid what is said."""
    if not 1 <= len(payments) <= count_max:
        raise Rejected(field, f"must be 1 to {count_max}, not {len(payments)}")
    for number, payment in enumerate(payments):
        _require_amount(f"{field}[{number}].amount", payment.amount)
    return [party_of(f"{field}[{number}].to", payment.to, node_of(sender)) for number, payment in enumerate(payments)]


def _require_amount(field: str, amount: int) -> None:
    if not 1 <= amount <= VALUE_MAX:
        raise Rejected(field, f"must be from 1 to {VALUE_MAX}, not {amount}")


# Assembling.


def _free_coins(states: Available, owner: Party, verifiers: Mapping[Party, str]) -> tuple[Known[ZetoCoin], ...]:
    """What a party can spend. Whoever pays may write any key beside a name: only what is the owner's own counts.

    The range of what was minted nobody has proved: a coin that is worth more than any can be is none.
    """
    key = verifiers.get(owner, "")
    return states.where(
        ZetoCoin, lambda coin: _is_free(coin) and _is_of(coin, key) and coin.amount <= VALUE_MAX, owner=owner
    )


def _is_of(coin: ZetoCoin, key: str) -> bool:
    return "0x" + coin.owner_key.hex() == key


def _is_free(coin: ZetoCoin) -> bool:
    return coin.delegate == NO_ADDRESS


def _paid(
    work: Assembly[Configuration],
    payments: tuple[Payment, ...],
    coins: tuple[Known[ZetoCoin], ...],
    delegate: ContractAddress = NO_ADDRESS,
    calls: tuple[Call, ...] = (),
) -> Outcome:
    """Pays, and gives the rest back. What `calls` take out of the contract is paid for like the rest."""
    amount = sum(payment.amount for payment in payments) + moved_by(calls)[1]
    selection = cover(coins, amount, _worth, INPUTS_MAX[Kind.ANON])
    if selection is None:
        return Reverted(_shortage(work.sender, coins, amount))
    if selection.change and len(payments) == OUTPUTS_MAX:
        return Reverted(
            f"{work.sender} has no coins worth exactly {amount}, and what pays {OUTPUTS_MAX} parties has no room for "
            "change: pay them one after the other"
        )
    makes = [_coin_for(work, payment, delegate) for payment in payments]
    if selection.change:
        makes.append(_coin_for(work, Payment(work.sender, selection.change)))
    told = _told(payments, work.sender)
    return Assembled(tuple(coin.id for coin in selection.coins), makes=tuple(makes), info=told, calls=calls)


def _deposited(work: Assembly[Configuration], amount: int) -> Outcome:
    reserve = require_reserve(work)
    shortage = shortage_of(reserve, work.sender, comes_in=amount)
    if shortage:
        return Reverted(shortage)
    call = deposit_call(reserve.token, reserve.account, work.contract.address, amount)
    return Assembled(makes=(_coin_for(work, Payment(work.sender, amount)),), calls=(call,))


def _withdrawn(work: Assembly[Configuration], amount: int) -> Outcome:
    reserve = require_reserve(work)
    shortage = shortage_of(reserve, work.sender, leaves=amount)
    if shortage:
        return Reverted(shortage)
    calls = (withdrawal_call(reserve.token, reserve.account, amount),)
    return _paid(work, (), _free_coins(work.states, work.sender, work.verifiers), calls=calls)


def _paid_from_lock(work: Assembly[Configuration], arguments: TransferLocked) -> Outcome:
    coins = _locked(work, arguments)
    change = sum(coin.record.amount for coin in coins) - sum(payment.amount for payment in arguments.transfers)
    if change < 0:
        return Reverted(f"the locked coins are worth {-change} less than what they shall pay")
    if change and len(arguments.transfers) == OUTPUTS_MAX:
        return Reverted(f"what pays {OUTPUTS_MAX} parties has no room for change, and {change} would be left")
    makes = [_coin_for(work, payment) for payment in arguments.transfers]
    if change:
        makes.append(_coin_for(work, Payment(work.sender, change)))
    told = _told(arguments.transfers, work.sender)
    return Assembled(tuple(coin.id for coin in coins), makes=tuple(makes), info=told)


def _locked(work: Assembly[Configuration], arguments: TransferLocked) -> tuple[Known[ZetoCoin], ...]:
    """The coins that are meant, all of the sender and of one delegate. `Rejected` names the first that is not there."""
    key = work.verifiers.get(work.sender, "")
    held = work.states.where(ZetoCoin, lambda coin: not _is_free(coin) and _is_of(coin, key), owner=work.sender)
    by_commitment = {_opened(coin.record, coin.salt).commitment: coin for coin in held}
    coins: list[Known[ZetoCoin]] = []
    for number, commitment in enumerate(arguments.locked_inputs):
        coin = by_commitment.pop(commitment, None)
        if coin is None:
            raise Rejected(f"lockedInputs[{number}]", f"must be the commitment of a locked coin of {work.sender}")
        coins.append(coin)
    if len({coin.record.delegate for coin in coins}) != 1:
        raise Rejected("lockedInputs", "must be coins of one delegate, who commits this")
    return tuple(coins)


def _coin_for(work: Assembly[Configuration], payment: Payment, delegate: ContractAddress = NO_ADDRESS) -> NewState:
    owner = party_of("to", payment.to, node_of(work.sender))
    key = work.verifiers.get(owner, "")
    if not key:
        raise Rejected("to", f"must be a party of its node, which does not know {owner}")
    coin = ZetoCoin(payment.amount, owner, _key_bytes(owner, key), delegate)
    return NewState(coin, (owner,))


def _key_bytes(owner: Party, key: str) -> bytes:
    try:
        compressed = bytes.fromhex(key.removeprefix("0x"))
        _point_of(compressed)
    except ValueError as error:
        raise Rejected("to", f"must be a party with a key for coins, and {owner} has none: {error}") from None
    return compressed


def _told(payments: Iterable[Payment], sender: Party) -> tuple[NewState, ...]:
    """What is said with a payment goes to who is paid."""
    return tuple(
        NewState(ZetoMemo(payment.data), (party_of("to", payment.to, node_of(sender)),), Role.INFO)
        for payment in payments
        if payment.data
    )


def _shortage(sender: Party, coins: tuple[Known[ZetoCoin], ...], amount: int) -> str:
    total = sum(coin.record.amount for coin in coins)
    if total < amount:
        return f"{sender} has {total}, and {amount} are needed"
    most = INPUTS_MAX[Kind.ANON]
    return f"{sender} has {total}, but no {most} coins that are worth {amount}: join some first by paying yourself"


def _worth(coin: ZetoCoin) -> int:
    return coin.amount


# Coins and keys.


def _opened(record: Record, salt: bytes) -> Coin:
    assert isinstance(record, ZetoCoin), "the only state of this domain is a coin"
    number = int.from_bytes(salt, "big") % ORDER
    return Coin(record.amount, number, _point_of(record.owner_key), int(record.delegate, 16))


def _shown(known: Known[Record]) -> dict[str, object]:
    assert isinstance(known.record, ZetoCoin), "a coin"
    commitment = _opened(known.record, known.salt).commitment
    shown: dict[str, object] = {"id": hex(commitment), "owner": known.record.owner, "amount": str(known.record.amount)}
    return shown if _is_free(known.record) else shown | {"delegate": known.record.delegate}


def _about(recipient: Recipient) -> bytes:
    """All parts but the last have one length, so that it can be read in one way only."""
    leaf, output = recipient.state
    return address_bytes(recipient.contract) + leaf + output.to_bytes(4, "big") + recipient.party.encode()


def _scalar_of(secret: bytes) -> int:
    """The owner's scalar, or one of random bytes (decision 130)."""
    return 1 + int.from_bytes(secret, "big") % ((1 << SCALAR_BITS) - 1)


@lru_cache(maxsize=KEYS_KEPT_MAX)
def _key_of(scalar: int) -> Point:
    return key_of(scalar)


@lru_cache(maxsize=KEYS_KEPT_MAX)
def _point_of(compressed: bytes) -> Point:
    """A key that somebody has; `ValueError` when it is none."""
    point = decompress(compressed)
    if not point.is_key:
        raise ValueError("it is no key of an owner")
    return point
