"""A token's ledger on a chain under test, with the real verifiers: coins, transitions, their proofs, and commits.

Both kinds of tokens are asked the same things. What a transition refers to that spends a coin, and what its proof is
made of, is for each kind to say.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from rota.calldata import (
    NO_CONDITION,
    ROUND_TOPIC,
    AuthCost,
    Entry,
    encode_commit,
    encode_payload,
    gas_bound,
    nullifier_reference,
)
from rota.domains.zeto.babyjubjub import Point, key_of
from rota.domains.zeto.circuits import Kind, Spent, Statement
from rota.domains.zeto.coins import Coin, net_of
from rota.domains.zeto.domain import ANON, ANON_KYC, ANON_NULLIFIER, ANON_NULLIFIER_KYC, LEDGERS, Zeto
from rota.domains.zeto.field import ORDER
from rota.domains.zeto.identities import Identities, identity_of
from rota.domains.zeto.membership import Members
from rota.domains.zeto.reserve import moved_by
from rota.keys.secp256k1 import PrivateKey
from rota.ledger.bindings import decode_result, deploy_proved, encode_call, read_deployment
from rota.ledger.hexadecimal import data
from rota.ledger.proofs import binding_of, encode_proofs, rooted
from rota.ledger.proved_ledgers import code_of
from rota.ledger.reading import CallReceipt
from rota.model.digests import core_of, domain_separator, intent_of, keccak, leaf_of
from rota.model.types import Call, ContractAddress, IntentId, Leaf, Preparation, State, StateId, Transition
from tests.contracts.evm import decode_error
from tests.domains.zeto.prover import proved
from tests.ledger.chains import CHAIN_ID, Chain, RpcRejected
from tests.ledger.participant import DEPLOYER, deploy_contract, send

DOMAIN = Zeto()
VALID_UNTIL_S = 2**40
CALL_GAS = 8_000_000
ISSUER = PrivateKey(keccak(b"issuer"))
ALICE, BOB = 1_234_567, 7_654_321
# How many roots a ledger takes, and among how many of its words the numbers of coins and roots are looked for.
ROOTS = 1_024
STORAGE_WORDS = 32

# A coin that is spent: the state that it is, and what it holds.
Input = tuple[StateId, Coin]


def coin(value: int, scalar: int = ALICE, salt: int = 1, delegate: int = 0) -> Coin:
    return Coin(value, salt, key_of(scalar), delegate)


@dataclass(frozen=True, slots=True)
class Made:
    """A transition and the coins that it makes."""

    transition: Transition
    coins: tuple[Coin, ...]
    statement: Statement | None = None

    @property
    def ids(self) -> tuple[StateId, ...]:
        return tuple(state.id for state in self.transition.outputs)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """What it has made, to be spent."""
        return tuple(zip(self.ids, self.coins, strict=True))


@dataclass(slots=True)
class TokenLedger:
    """One contract; its makers are remembered by their leaves."""

    chain: Chain
    address: ContractAddress
    separator: bytes
    intents: int = 0
    coins: dict[Leaf, bytes] = field(default_factory=dict)
    keys: dict[IntentId, PrivateKey] = field(default_factory=dict)

    # What differs between the kinds.

    kind = Kind.ANON

    def reference(self, spent: Input, scalar: int = ALICE) -> StateId:
        """What a transition refers to that spends this coin."""
        return spent[0]

    def stated(self, statement: Statement, pending: Coin | None) -> Statement:
        """What is proved, given what is spent and made."""
        assert pending is None, "its inputs are named"
        return statement

    def signature(self, statement: Statement) -> bytes:
        """What stands behind the signature of the intent's key."""
        return rooted(DOMAIN.shown_with(statement), proved(statement))

    def follow(self, *made: Made) -> None:
        """These are committed."""

    async def prepare(self) -> None:
        """What its owners need before they have coins."""

    # Transitions.

    def references(self, made: Made, scalar: int = ALICE) -> tuple[StateId, ...]:
        """What spends all that a transition has made, of whoever has this secret."""
        return tuple(self.reference(each, scalar) for each in made.inputs)

    def written(
        self,
        inputs: tuple[StateId, ...],
        commitments: tuple[bytes, ...],
        preparation: Preparation | None = None,
        intent: int | None = None,
        separator: bytes | None = None,
        calls: tuple[Call, ...] = (),
        reads: tuple[StateId, ...] = (),
    ) -> Transition:
        """A transition without a proof."""
        self.intents += 1
        number = self.intents if intent is None else intent
        key = intent_key(number)
        identity = intent_of(key.address)
        self.keys[identity] = key
        outputs = tuple(keccak(b"content of " + each) for each in commitments)
        domain = separator or self.separator
        core = core_of(domain, identity, reads=reads, inputs=inputs, outputs=outputs, info=commitments, calls=calls)
        leaf = leaf_of(core, preparation)
        self.coins[leaf] = b"".join(commitments)
        states = tuple(State(StateId(leaf, n), each, ()) for n, each in enumerate(outputs))
        return Transition(
            identity, leaf, inputs, reads, states, commitments, VALID_UNTIL_S, calls=calls, preparation=preparation
        )

    def mint(self, *coins: Coin) -> Made:
        """Coins of nothing, which the issuer signs for."""
        made = self.written((), words(coins))
        signature = ISSUER.sign_compact(binding_of(made.leaf, VALID_UNTIL_S))
        return Made(self.signed(made, signature), coins)

    def empty(self, intent: int) -> Transition:
        """What only uses an intent up, signed by its key."""
        return self.signed(self.written((), (), intent=intent), b"")

    def signed(self, made: Transition, rest: bytes, depositor: PrivateKey | None = None) -> Transition:
        """With the signature of its intent's key, then a depositor's, then what else is shown."""
        binding = binding_of(made.leaf, made.valid_until_s)
        deposited = depositor.sign_compact(binding) if depositor is not None else b""
        return replace(made, signature=self.keys[made.intent].sign_compact(binding) + deposited + rest)

    def pay(
        self,
        inputs: tuple[Input, ...],
        outputs: tuple[Coin, ...],
        scalar: int = ALICE,
        intent: int | None = None,
        preparation: Preparation | None = None,
        calls: tuple[Call, ...] = (),
        depositor: PrivateKey | None = None,
        pending: Input | None = None,
    ) -> Made:
        """A transfer with its proof; with a call, a deposit or a withdrawal. `pending` is an input under way."""
        reads = (pending[0],) if pending is not None else ()
        references = tuple(self.reference(each, scalar) for each in inputs)
        made = self.written(references, words(outputs), preparation, intent, calls=calls, reads=reads)
        stated = self.stated(
            Statement(
                self.kind,
                scalar,
                tuple(Spent(each) for _, each in inputs),
                outputs,
                0,
                net=net_of(*moved_by(calls)),
                delegate=int(preparation.committer, 16) if preparation is not None else 0,
            ),
            pending[1] if pending is not None else None,
        )
        return self.proven(made, stated, depositor)

    def proven(self, transition: Transition, statement: Statement, depositor: PrivateKey | None = None) -> Made:
        """A transition with a proof of this statement, bound to it."""
        stated = bound(statement, transition)
        return Made(self.signed(transition, self.signature(stated), depositor), stated.outputs, stated)

    # The chain.

    def auth(self, *entries: Entry) -> bytes:
        return encode_proofs(entries, self.coins.__getitem__)

    def call_data(self, *entries: Entry, auth: bytes | None = None) -> bytes:
        payload = encode_payload(entries, VALID_UNTIL_S)
        return encode_commit(payload, self.auth(*entries) if auth is None else auth, NO_CONDITION)

    async def commit(self, *made: Made) -> CallReceipt:
        """Commit for good, within the gas that it is said to take at most."""
        entries = tuple(each.transition for each in made)
        limit = gas_bound(entries, VALID_UNTIL_S, AuthCost.of_proofs())
        call = data(self.call_data(*entries))
        receipt = await send(self.chain, {"to": self.address, "data": call, "gas": hex(limit)})
        (log,) = [log for log in receipt.logs if log.address == self.address and log.topics[0] == ROUND_TOPIC]
        mask = int.from_bytes(log.data[:32], "big")
        self.follow(*(each for place, each in enumerate(made) if mask >> place & 1))
        return receipt

    async def refusal(self, *entries: Entry, auth: bytes | None = None) -> str:
        """Why the contract would not take this; empty when it would."""
        try:
            await self._called(entries, auth)
        except RpcRejected as rejected:
            told = str(rejected.data)
        else:
            return ""
        return str(decode_error(bytes.fromhex(told.removeprefix("0x"))))

    async def committed(self, *entries: Entry, auth: bytes | None = None) -> int:
        """What a commit would answer: which of them would be committed now."""
        answer = await self._called(entries, auth)
        return int(answer[2:66], 16)

    async def _called(self, entries: tuple[Entry, ...], auth: bytes | None) -> str:
        call = data(self.call_data(*entries, auth=auth))
        wanted = {"from": DEPLOYER, "to": self.address, "data": call, "gas": hex(CALL_GAS)}
        answer: str = await self.chain.rpc("eth_call", wanted, "latest")
        return answer


@dataclass
class UnlinkedLedger(TokenLedger):
    """One whose coins are spent by nullifiers, and the tree of them all."""

    tree: Members = field(default_factory=Members)

    kind = Kind.ANON_NULLIFIER

    def reference(self, spent: Input, scalar: int = ALICE) -> StateId:
        return nullifier_reference(spent[1].nullifier(scalar).to_bytes(32, "big"))

    def stated(self, statement: Statement, pending: Coin | None) -> Statement:
        """With the ways of its coins to the root of now; of one that is not in the tree there is none."""
        shown = pending.commitment if pending is not None else 0
        paths = [
            () if each.coin.commitment == shown else self.tree.path_to(each.coin.commitment) or ()
            for each in statement.inputs
        ]
        inputs = tuple(replace(each, path=path) for each, path in zip(statement.inputs, paths, strict=True))
        has_others = len(inputs) > (pending is not None)
        return replace(statement, inputs=inputs, root=self.tree.root if has_others else 0, pending=shown)

    def follow(self, *made: Made) -> None:
        self.tree.extend([each.transition.info for each in made])


@dataclass
class RegisteredLedger(TokenLedger):
    """One whose coins only registered owners have."""

    identities: Identities = field(default_factory=Identities)

    kind = Kind.ANON_KYC

    def stated(self, statement: Statement, pending: Coin | None) -> Statement:
        """With the ways of its owners to the root of now; of one that is not registered there is none."""
        statement = super().stated(statement, pending)
        return replace(
            statement,
            identities=self.identities.root_number,
            owner_path=(self.identities.path_of(key_of(statement.scalar)) or ()) if statement.inputs else (),
            output_paths=tuple(self.identities.path_of(each.owner) or () for each in statement.outputs),
        )

    async def prepare(self) -> None:
        for scalar in (ALICE, BOB):
            await self.register(key_of(scalar))

    async def register(self, key: Point, by: PrivateKey | None = None) -> CallReceipt:
        call = encode_call("NullifiedKyc", "register", [key.x, key.y], b"")
        signature = (by or ISSUER).sign_compact(keccak(self.separator + call))
        receipt = await send(self.chain, {"to": self.address, "data": data(call + signature)})
        self.identities.extend([identity_of(key).to_bytes(32, "big")])
        return receipt


@dataclass
class RegisteredUnlinkedLedger(RegisteredLedger, UnlinkedLedger):
    """Both."""

    kind = Kind.ANON_NULLIFIER_KYC


def intent_key(number: int) -> PrivateKey:
    """The key that an intent's id stands for."""
    return PrivateKey(keccak(b"intent %d" % number))


def bound(statement: Statement, transition: Transition) -> Statement:
    """The same statement about this transition."""
    binding = int.from_bytes(binding_of(transition.leaf, transition.valid_until_s), "big") % ORDER
    return replace(statement, binding=binding)


def words(coins: tuple[Coin, ...]) -> tuple[bytes, ...]:
    return tuple(each.commitment.to_bytes(32, "big") for each in coins)


# Asks a chain: a test's own way to it, or a node's.
Ask = Callable[..., Awaitable[Any]]


async def asked_of(ask: Ask, contract: str, function: str, *arguments: object) -> tuple[int, ...]:
    """What a ledger of nullifiers answers."""
    call = {"to": contract, "data": data(encode_call("Nullified", function, *arguments))}
    answer = str(await ask("eth_call", call, "latest"))
    return tuple(map(int, decode_result("Nullified", function, bytes.fromhex(answer.removeprefix("0x")))))


async def age_roots(ask: Ask, contract: str, count: int) -> None:
    """Set a ledger's number of roots, as rounds in so many blocks would do it, or take that back."""
    coins, roots = await asked_of(ask, contract, "size")
    for place in range(STORAGE_WORDS):
        slot = "0x" + place.to_bytes(32, "big").hex()
        word = int(str(await ask("eth_getStorageAt", contract, hex(place), "latest")), 16)
        # The number of coins, the block of the latest root, and the number of blocks that made roots.
        if word % 2**64 == coins and word >> 128 == roots:
            changed = (word + (count << 128)).to_bytes(32, "big")
            await ask("anvil_setStorageAt", contract, slot, data(changed))
            return
    raise AssertionError("the ledger keeps both numbers in one word")


TOKENS: dict[str, type[TokenLedger]] = {
    ANON: TokenLedger,
    ANON_NULLIFIER: UnlinkedLedger,
    ANON_KYC: RegisteredLedger,
    ANON_NULLIFIER_KYC: RegisteredUnlinkedLedger,
}


async def token_ledger(
    chain: Chain,
    factory: ContractAddress | None = None,
    number: int = 0,
    token: str = ANON,
    unbacked_mints: bool = False,
    contract: str = "",
) -> TokenLedger:
    """A new token on this chain, deployed as a node does it; `contract` is another ledger with the same verifiers."""
    factory = factory or await deploy_contract(chain, "Factory")
    wanted = replace(LEDGERS[token], terms=(unbacked_mints,))
    code = code_of(replace(wanted, contract=contract or wanted.contract), factory)
    for verifier in code.verifiers:
        await send(chain, {"to": factory, "data": data(encode_call("Factory", "place", verifier.code))})
        assert await chain.rpc("eth_getCode", verifier.address, "latest") != "0x"
    issuer = ContractAddress("0x" + ISSUER.address.hex())
    call = deploy_proved(IntentId(keccak(b"%d" % number)[:16]), bytes(32), issuer, code.code, code.arguments)
    receipt = await send(chain, {"to": factory, "data": data(call)})
    told = read_deployment(receipt.logs[-1])
    assert (told.endorsers, told.threshold, told.ledger) == ((issuer,), 0, code.hash)
    ledger = TOKENS[token](chain, told.contract, domain_separator(CHAIN_ID, told.contract))
    await ledger.prepare()
    return ledger
