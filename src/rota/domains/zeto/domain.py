"""Zero-knowledge tokens: nobody endorses, every owner coordinates its own transactions, and the chain checks a proof.

Theory of operation. A coin is a state of the ledger like any other: its hash is an output, its owner's node has its
bytes. Beside the hash stands a commitment to what it is worth and whose it is (`coins.py`), which is all that a proof
speaks of (decision 130). What is assembled here is proved before it counts as signed: `statement` says what.

Only who makes and who gets a coin ever see it. The issuer's node signs for coins that are made of nothing, and learns
of no others. Change is spent before it is confirmed, by whoever made it: nobody else knows of it yet.

There are two ways to spend. `Zeto_Anon` names the coins that it spends. `Zeto_AnonNullifier` spends by nullifiers, and
proves that its coins are in the tree of all that were made (`membership.py`). What is not in it yet is read by name,
one coin at most, which shows whose change it is: so what is confirmed is spent first. Of each way there is a kind whose
coins only registered owners spend and get (`registration.py`).

Coins are made of a public token too, if the contract was given one, and turned into it (`reserve.py`).

A circuit takes two coins and makes two, so that a transfer pays one party and gives the rest back. Its large form takes
ten, or five with nullifiers, and makes eight, which takes longer to prove: for whoever pays several at once, or has
many small coins. With more than that they are joined first, by paying oneself. Tokens of registered owners have the
small form alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import ClassVar, Final

from rota.domains.available import Available, Known, Selection, cover
from rota.domains.base import (
    Assembled,
    Assembly,
    AttestationPlan,
    Behind,
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
    Roots,
    Settled,
    party_of,
    unknown_elsewhere,
)
from rota.domains.contents import Role
from rota.domains.records import Record
from rota.domains.zeto.babyjubjub import compress
from rota.domains.zeto.circuits import CIRCUITS, INPUTS_MAX, OUTPUTS_MAX, Kind, Spent, Statement
from rota.domains.zeto.coins import VALUE_MAX, net_of
from rota.domains.zeto.encryption import decrypt, encrypt
from rota.domains.zeto.field import ORDER
from rota.domains.zeto.identities import Identities
from rota.domains.zeto.membership import Members
from rota.domains.zeto.owners import (
    about,
    is_free,
    is_of,
    key_bytes,
    nullifier,
    opened,
    owner_key_of,
    point_of,
    salt_of,
    scalar_of,
    shown_coin,
)
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
from rota.domains.zeto.registration import path_of, registers, unregistered
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
from rota.model.state_ids import shown_state_id
from rota.model.types import Call, Contract, ContractAddress, Mode, Party, Preparation, StateId, SubmitMode, node_of

ANON: Final = "Zeto_Anon"
ANON_NULLIFIER: Final = "Zeto_AnonNullifier"
ANON_KYC: Final = "Zeto_AnonKyc"
ANON_NULLIFIER_KYC: Final = "Zeto_AnonNullifierKyc"
KINDS: Final[Mapping[str, Kind]] = {
    ANON: Kind.ANON,
    ANON_NULLIFIER: Kind.ANON_NULLIFIER,
    ANON_KYC: Kind.ANON_KYC,
    ANON_NULLIFIER_KYC: Kind.ANON_NULLIFIER_KYC,
}
# Their term is whether the issuer may both mint coins and set an ERC-20.
LEDGERS: Final[Mapping[str, ProvedLedger]] = {
    ANON: ProvedLedger("Proved", ("VerifierAnon2x2", "VerifierAnon10x8"), (False,)),
    ANON_NULLIFIER: ProvedLedger(
        "Nullified", ("VerifierAnonNullifier2x2", "VerifierAnonNullifier5x8", "PoseidonTree"), (False,)
    ),
    ANON_KYC: ProvedLedger("ProvedKyc", ("VerifierAnonKyc2x2", "PoseidonTree"), (False,)),
    ANON_NULLIFIER_KYC: ProvedLedger("NullifiedKyc", ("VerifierAnonNullifierKyc2x2", "PoseidonTree"), (False,)),
}
MINTS_MAX: Final = 15
NO_CONDITION: Final = bytes(32)


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
    ledgers = tuple(replace(ledger, terms=(term,)) for ledger in LEDGERS.values() for term in (False, True))
    is_encrypted = True
    moving = frozenset(("deposit", "withdraw", "mint"))
    calls_gas_max = MOVE_GAS

    # Contracts.

    def deploy(self, arguments: Record, sender: Party) -> Deployment[Configuration]:
        """Who deploys a token issues it."""
        assert isinstance(arguments, Constructor), "the constructor's own record"
        if arguments.token_name not in LEDGERS:
            raise Rejected("tokenName", f"must be {' or '.join(LEDGERS)}, not {arguments.token_name!r}")
        configuration = Configuration(arguments.token_name, sender, arguments.unbacked_mints)
        return Deployment(AttestationPlan.proofs(sender), configuration, (sender,))

    def configure(self, configuration: Configuration, contract: Contract) -> None:
        """Its issuer's node signs for new coins, and nobody for anything else."""
        if configuration.token_name not in LEDGERS:
            raise Rejected("tokenName", f"must be {' or '.join(LEDGERS)}, not {configuration.token_name!r}")
        issuer = (node_of(configuration.issuer),)
        if contract.mode is not Mode.SENDER or contract.threshold or contract.endorsers != issuer:
            raise Rejected("endorsers", f"must be {issuer[0]} alone, which signs for new coins, and none may have to")

    def ledger_of(self, configuration: Configuration) -> ProvedLedger:
        """Each kind has its own, with the terms of its coins."""
        return replace(LEDGERS[configuration.token_name], terms=(configuration.unbacked_mints,))

    def circuits(self, configuration: Configuration) -> tuple[object, ...]:
        """Those of its kind; the small one is for nearly every payment."""
        return tuple(circuit for circuit in CIRCUITS if circuit.kind is KINDS[configuration.token_name])

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
                return (sender, *_receivers("transfers", transfers, _outputs_max(request.configuration), sender))
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
                most = _inputs_max(request.configuration)
                if not 1 <= len(arguments.locked_inputs) <= most:
                    raise Rejected("lockedInputs", f"must be 1 to {most} coins")
                count_max = _outputs_max(request.configuration)
                return (sender, *_receivers("transfers", arguments.transfers, count_max, sender))

    def assemble(self, work: Assembly[Configuration]) -> Outcome:
        """Which coins are spent, and which are made of them."""
        refusal = unregistered(work, _owners_in(work))
        if refusal:
            return Reverted(refusal)
        match work.arguments:
            case Mint(mints):
                if work.reserve is not None and not work.configuration.unbacked_mints:
                    return Reverted(f"coins of this token are made of the ERC-20 {work.reserve.token} alone")
                paid = [_coin_for(work, payment) for payment in mints]
                return Assembled(makes=tuple(paid), info=_told(mints, work.sender))
            case Transfer(transfers):
                return _paid(work, transfers)
            case Lock(amount, delegate):
                return _paid(work, (Payment(work.sender, amount),), delegate)
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
        return "0x" + compress(owner_key_of(scalar_of(secret))).hex()

    def commitments(self, made: tuple[tuple[Record, bytes], ...]) -> tuple[bytes, ...]:
        """Of each coin the one that its proof speaks of."""
        return tuple(opened(record, salt).commitment.to_bytes(32, "big") for record, salt in made)

    def statement(self, claim: Claim[Configuration]) -> Statement | None:
        """What is spent and comes in is worth what is made and leaves. For a mint the issuer signs instead."""
        if not claim.spends and claim.makes and not claim.calls:
            return None
        statement = Statement(
            KINDS[claim.configuration.token_name],
            scalar_of(claim.secret) if claim.spends else 0,
            tuple(Spent(opened(known.record, known.salt)) for known in claim.spends),
            tuple(opened(known.record, known.salt) for known in claim.makes),
            int.from_bytes(claim.binding, "big") % ORDER,
            net=net_of(*moved_by(claim.calls)),
            delegate=int(claim.preparation.committer, 16) if claim.preparation is not None else 0,
        )
        if statement.kind.has_nullifiers:
            statement = _in_tree(statement, claim)
        return _of_registered(statement, claim) if statement.kind.has_identities else statement

    def nullifier(
        self, configuration: Configuration, state: Known[Record], secret_of: Callable[[Party], bytes | None]
    ) -> bytes | None:
        """Of a coin that is spent by one, if its owner is one of ours by name and key."""
        coin = state.record
        if not KINDS[configuration.token_name].has_nullifiers or not isinstance(coin, ZetoCoin):
            return None
        secret = secret_of(coin.owner)
        if secret is None or not is_of(coin, self.verifier_of(secret)):
            return None
        return nullifier(coin.amount, salt_of(state.salt), scalar_of(secret)).to_bytes(32, "big")

    def is_owned(self, state: Known[Record], secret_of: Callable[[Party], bytes | None]) -> bool:
        """Whether the coin has the key of its owner, and a value that can be spent."""
        coin = state.record
        if not isinstance(coin, ZetoCoin) or coin.amount > VALUE_MAX:
            return False
        secret = secret_of(coin.owner)
        return secret is None or is_of(coin, self.verifier_of(secret))

    def tree_of(self, configuration: Configuration) -> Members | None:
        """Of a kind with nullifiers."""
        return Members() if KINDS[configuration.token_name].has_nullifiers else None

    def roster_of(self, configuration: Configuration) -> Identities | None:
        """Of a kind with registered owners."""
        return Identities() if KINDS[configuration.token_name].has_identities else None

    def shown_with(self, statement: object) -> Roots:
        """The roots of coins and of identities."""
        assert isinstance(statement, Statement), "what this domain has stated"
        return Roots(
            statement.root.to_bytes(32, "big") if statement.kind.has_nullifiers else b"",
            statement.identities.to_bytes(32, "big") if statement.kind.has_identities else b"",
        )

    def is_signed_too(self, claim: Claim[Configuration]) -> bool:
        """Nobody deposits another's tokens."""
        return any(map(is_deposit, claim.calls))

    def is_issuers(self, configuration: Configuration, sender: Party, call: bytes) -> bool:
        """Who issues the coins says what they are made of, and who may have them."""
        if sender != configuration.issuer:
            return False
        return sets_token(call) or (KINDS[configuration.token_name].has_identities and registers(call))

    # Encryption.

    def encrypt(self, content: bytes, record: Record | None, recipient: Recipient, entropy: bytes) -> bytes:
        """To the key that owns the coin; what is told with it goes to the same party."""
        if not isinstance(record, ZetoCoin) or record.owner != recipient.party:
            raise Rejected("state", f"must be a coin of {recipient.party}, whose key is in it")
        try:
            key = point_of(record.owner_key)
        except ValueError as error:
            raise Rejected("state", f"must have the key of {recipient.party}: {error}") from None
        return encrypt(content, key, scalar_of(entropy), about(recipient))

    def decrypt(self, encrypted: bytes, recipient: Recipient, secret: bytes) -> bytes:
        """By the scalar of its owner."""
        return decrypt(encrypted, scalar_of(secret), about(recipient))

    # Questions.

    def call(self, question: Question[Configuration]) -> object:
        """What an account of this node has; of others nothing is known here."""
        assert isinstance(question.arguments, Account), "the only view"
        account = party_of("account", question.arguments.account, node_of(question.asker))
        coins = _free_coins(question.configuration, question.states, account, question.verifiers)
        total = sum(coin.record.amount for coin in coins)
        told = {"totalStates": str(len(coins)), "totalBalance": str(total), "overflow": False}
        return told | unknown_elsewhere(question.asker, (account,))

    def receipt(self, settled: Settled[Configuration]) -> dict[str, object]:
        """The coins that this node may see; a locked one is named by its commitment in `transferLocked`."""
        made = [shown_coin(known) for known in settled.made if isinstance(known.record, ZetoCoin)]
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


def _free_coins(
    configuration: Configuration, states: Available, owner: Party, verifiers: Mapping[Party, str]
) -> tuple[Known[ZetoCoin], ...]:
    """What a party can spend. Whoever pays may write any key beside a name: only what is the owner's own counts.

    The range of what was minted nobody has proved: a coin that is worth more than any can be is none. Of coins that one
    nullifier spends, which somebody made so on purpose, one counts.
    """
    key = verifiers.get(owner, "")
    coins = states.where(
        ZetoCoin, lambda coin: is_free(coin) and is_of(coin, key) and coin.amount <= VALUE_MAX, owner=owner
    )
    if not KINDS[configuration.token_name].has_nullifiers:
        return coins
    first = {(coin.record.amount, salt_of(coin.salt)): coin for coin in reversed(coins)}
    return tuple(coin for coin in coins if first[coin.record.amount, salt_of(coin.salt)] is coin)


def _paid(
    work: Assembly[Configuration],
    payments: tuple[Payment, ...],
    delegate: ContractAddress = NO_ADDRESS,
    calls: tuple[Call, ...] = (),
) -> Outcome:
    """Pays, and gives the rest back. What `calls` take out of the contract is paid for like the rest."""
    coins = _free_coins(work.configuration, work.states, work.sender, work.verifiers)
    amount = sum(payment.amount for payment in payments) + moved_by(calls)[1]
    selection = _covered(work, coins, amount)
    if selection is None:
        return Reverted(_shortage(work, coins, amount))
    count_max = _outputs_max(work.configuration)
    if selection.change and len(payments) == count_max:
        return Reverted(
            f"{work.sender} has no coins worth exactly {amount}, and what pays {count_max} parties has no room for "
            "change: pay them one after the other"
        )
    makes = [_coin_for(work, payment, delegate) for payment in payments]
    if selection.change:
        makes.append(_coin_for(work, Payment(work.sender, selection.change)))
    return _spending(work, selection.coins, makes, payments, calls)


def _covered(
    work: Assembly[Configuration], coins: tuple[Known[ZetoCoin], ...], amount: int
) -> Selection[ZetoCoin] | None:
    """The coins that pay this. By nullifiers what is confirmed, with one that is not if it has to be.

    When more than one would have to be, `Behind`: they are confirmed soon.
    """
    most = _inputs_max(work.configuration)
    if not KINDS[work.configuration.token_name].has_nullifiers:
        return cover(coins, amount, _worth, most)
    confirmed = [coin for coin in coins if work.states.is_confirmed(coin.id)]
    under_way = [coin for coin in coins if not work.states.is_confirmed(coin.id)]
    selection = cover(confirmed, amount, _worth, most)
    if selection is None and under_way:
        largest = max(under_way, key=lambda coin: (coin.record.amount, coin.id))
        selection = cover((*confirmed, largest), amount, _worth, most)
        if selection is None and cover(coins, amount, _worth, most) is not None:
            raise Behind(f"{work.sender} has coins worth {amount} only with several that are not confirmed yet")
    return selection


def _spending(
    work: Assembly[Configuration],
    coins: tuple[Known[ZetoCoin], ...],
    makes: list[NewState],
    payments: tuple[Payment, ...],
    calls: tuple[Call, ...] = (),
) -> Assembled:
    """By nullifiers, a coin that is not in the tree yet is read by name."""
    spends = tuple(coin.id for coin in coins)
    reads: tuple[StateId, ...] = ()
    if KINDS[work.configuration.token_name].has_nullifiers:
        reads = tuple(state for state in spends if not work.states.is_confirmed(state))
    return Assembled(spends, reads, tuple(makes), _told(payments, work.sender), calls)


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
    return _paid(work, (), calls=calls)


def _paid_from_lock(work: Assembly[Configuration], arguments: TransferLocked) -> Outcome:
    coins = _locked(work, arguments)
    change = sum(coin.record.amount for coin in coins) - sum(payment.amount for payment in arguments.transfers)
    if change < 0:
        return Reverted(f"the locked coins are worth {-change} less than what they shall pay")
    count_max = _outputs_max(work.configuration)
    if change and len(arguments.transfers) == count_max:
        return Reverted(f"what pays {count_max} parties has no room for change, and {change} would be left")
    makes = [_coin_for(work, payment) for payment in arguments.transfers]
    if change:
        makes.append(_coin_for(work, Payment(work.sender, change)))
    return _spending(work, coins, makes, arguments.transfers)


def _locked(work: Assembly[Configuration], arguments: TransferLocked) -> tuple[Known[ZetoCoin], ...]:
    """The coins that are meant, all of the sender and of one delegate. `Rejected` names the first that is not there."""
    key = work.verifiers.get(work.sender, "")
    held = work.states.where(ZetoCoin, lambda coin: not is_free(coin) and is_of(coin, key), owner=work.sender)
    named = {opened(coin.record, coin.salt).commitment: coin for coin in held}
    named |= {int.from_bytes(shown_state_id(coin.id), "big"): coin for coin in held}
    coins: list[Known[ZetoCoin]] = []
    for number, name in enumerate(arguments.locked_inputs):
        coin = named.get(name)
        if coin is None or coin in coins:
            text = f"must be the commitment or the state's id of a locked coin of {work.sender}, named once"
            raise Rejected(f"lockedInputs[{number}]", text)
        coins.append(coin)
    if len({coin.record.delegate for coin in coins}) != 1:
        raise Rejected("lockedInputs", "must be coins of one delegate, who commits this")
    under_way = sum(not work.states.is_confirmed(coin.id) for coin in coins)
    if under_way > 1 and KINDS[work.configuration.token_name].has_nullifiers:
        raise Behind("lockedInputs: more than one of these coins is not confirmed yet")
    return tuple(coins)


def _coin_for(work: Assembly[Configuration], payment: Payment, delegate: ContractAddress = NO_ADDRESS) -> NewState:
    owner = party_of("to", payment.to, node_of(work.sender))
    key = work.verifiers.get(owner, "")
    if not key:
        raise Rejected("to", f"must be a party of its node, which does not know {owner}")
    coin = ZetoCoin(payment.amount, owner, key_bytes(owner, key), delegate)
    return NewState(coin, (owner,))


def _told(payments: Iterable[Payment], sender: Party) -> tuple[NewState, ...]:
    """What is said with a payment goes to who is paid."""
    return tuple(
        NewState(ZetoMemo(payment.data), (party_of("to", payment.to, node_of(sender)),), Role.INFO)
        for payment in payments
        if payment.data
    )


def _shortage(work: Assembly[Configuration], coins: tuple[Known[ZetoCoin], ...], amount: int) -> str:
    sender, total = work.sender, sum(coin.record.amount for coin in coins)
    if total < amount:
        return f"{sender} has {total}, and {amount} are needed"
    most = _inputs_max(work.configuration)
    return f"{sender} has {total}, but no {most} coins that are worth {amount}: join some first by paying yourself"


def _worth(coin: ZetoCoin) -> int:
    return coin.amount


def _inputs_max(configuration: Configuration) -> int:
    return INPUTS_MAX[KINDS[configuration.token_name]]


def _outputs_max(configuration: Configuration) -> int:
    return OUTPUTS_MAX[KINDS[configuration.token_name]]


def _owners_in(work: Assembly[Configuration]) -> tuple[Party, ...]:
    """Whose coins a transaction spends or makes: an issuer that mints has no part in its coins."""
    match work.arguments:
        case Mint(payments):
            own: tuple[Party, ...] = ()
        case Transfer(payments) | TransferLocked(transfers=payments):
            own = (work.sender,)
        case _:
            own, payments = (work.sender,), ()
    return (*own, *(party_of("to", payment.to, node_of(work.sender)) for payment in payments))


# Proving.


def _in_tree(statement: Statement, claim: Claim[Configuration]) -> Statement:
    """The same with the way of each coin to the root of now; of the one that is read by name there is none."""
    assert isinstance(claim.tree, Members), "a contract whose coins are in a tree has one"
    tree = claim.tree
    pending = 0
    inputs: list[Spent] = []
    for known, spent in zip(claim.spends, statement.inputs, strict=True):
        commitment = spent.coin.commitment
        path = () if known.id in claim.reads else tree.path_to(commitment)
        if path is None:
            raise Behind("a coin that is to be spent is not on the chain, or not any more")
        pending = commitment if known.id in claim.reads else pending
        inputs.append(replace(spent, path=path))
    needs_root = len(inputs) > len(claim.reads)
    return replace(statement, inputs=tuple(inputs), root=tree.root if needs_root else 0, pending=pending)


def _of_registered(statement: Statement, claim: Claim[Configuration]) -> Statement:
    """The same with the ways of all owners to the root of identities."""
    assert isinstance(claim.roster, Identities), "a token with registered owners has their identities"
    return replace(
        statement,
        identities=claim.roster.root_number,
        owner_path=path_of(claim, owner_key_of(statement.scalar)) if statement.inputs else (),
        output_paths=tuple(path_of(claim, coin.owner) for coin in statement.outputs),
    )
