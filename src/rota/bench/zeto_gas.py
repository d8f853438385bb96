"""The cost of zero-knowledge tokens on the chain: the real contracts and real proofs, by the size of a round.

A figure is the gas of a whole transaction on the embedded chain divided by its transitions, as in `gas`. Every intent
has a page of its own, as with these tokens: shared pages would reveal the sender. The kinds:

transfer    2 coins in, of two transitions, and 2 out
chained     1 in, 2 out; each spends the change of the previous one, in the same round or the last one
mint        by the issuer's signature, 1 out
deposit     a coin for tokens of an ERC-20, 1 out
withdrawal  a coin into tokens, 1 in and 1 out
void        an empty transition, which uses its intent up and is not proved

The ERC-20 is the one for privacy groups: its own gas is in the figure. The tree of `Zeto_AnonNullifier` has
some 400 coins. Proofs are made one after another, so that a kind takes a minute. Needs the extra `zeto`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from rota.bench.gas import CHAIN_ID, GAS_LIMIT, address_of
from rota.calldata import ROUND_TOPIC, encode_commit, encode_payload, nullifier_reference
from rota.domains.base import Roots
from rota.domains.zeto.babyjubjub import key_of
from rota.domains.zeto.circuits import Circuit, Kind, Spent, Statement, trace
from rota.domains.zeto.coins import Coin, net_of
from rota.domains.zeto.domain import ANON, ANON_NULLIFIER, LEDGERS, MINTS_MAX
from rota.domains.zeto.field import ORDER
from rota.domains.zeto.membership import Members
from rota.domains.zeto.records import NO_ADDRESS
from rota.domains.zeto.reserve import deposit_call, is_deposit, moved_by, withdrawal_call
from rota.domains.zeto.tree import EMPTY
from rota.keys import secp256k1
from rota.keys.secp256k1 import PrivateKey
from rota.ledger.bindings import creation_code, encode_call
from rota.ledger.embedded.accounts import DEVELOPMENT_ACCOUNTS
from rota.ledger.embedded.blocks import Receipt
from rota.ledger.embedded.chain import EmbeddedChain
from rota.ledger.embedded.settings import Settings
from rota.ledger.proofs import binding_of, coins_in, encode_proofs, rooted
from rota.ledger.transaction import DynamicFeeTransaction
from rota.model.digests import core_of, domain_separator, intent_of, keccak, leaf_of
from rota.model.types import Call, ContractAddress, IntentId, Leaf, State, StateId, Transition, address_bytes
from rota.prover.curve import require_curve
from rota.prover.groth16 import ProvingKey, prove
from rota.prover.key_files import DEVELOPMENT_KEYS, load_key

VALID_UNTIL_S: Final = 2**40
FEE_WEI: Final = 10**12
MINTED_AT_ONCE: Final = 10
IN_TREE: Final = 360
ISSUER: Final = PrivateKey(keccak(b"issuer"))
ACCOUNT: Final = PrivateKey(DEVELOPMENT_ACCOUNTS[0].secret)
SCALAR: Final = 1_234_567
VALUE: Final = 1_000
MOVED: Final = 300
PLENTY: Final = 10**9
SIZES: Final = (1, 2, 5, 10, 20)
FEW_SIZES: Final = (1, 10)
LOADS: Final = {
    "transfer": FEW_SIZES,
    "chained": SIZES,
    "mint": FEW_SIZES,
    "deposit": FEW_SIZES,
    "withdrawal": FEW_SIZES,
    "void": FEW_SIZES,
}

# Zeto's own figures for a transfer of 2 inputs and 2 outputs; its transactions are alone.
ZETO: Final = {ANON: 326_583, ANON_NULLIFIER: 2_005_587}

MEANINGS: Final = {
    "transfer": "2 coins in, of two transitions, and 2 out",
    "chained": "1 in, 2 out; each spends the change of the one before it",
    "mint": "by the issuer's signature, 1 out",
    "deposit": "a coin of an ERC-20's tokens, 1 out; the token's own gas is in it",
    "withdrawal": "a coin into tokens, 1 in and 1 out; the same",
    "void": "an empty transition, by the signature of its intent's key",
}

ByLoad = dict[str, dict[int, float]]


@dataclass(frozen=True, slots=True)
class Owned:
    """A coin of the owner, and its state."""

    state: StateId
    coin: Coin


def measure_zeto_gas(
    progress: Callable[[str], None] = lambda _: None, loads: Mapping[str, tuple[int, ...]] = LOADS
) -> dict[str, ByLoad]:
    """Gas per transition, by the kind of token, the load and the size of a round. `CurveMissing` without the extra."""
    require_curve()
    # By default the library has a thread for each core; this must be set before its first work.
    os.environ["RAYON_NUM_THREADS"] = "1"
    figures: dict[str, ByLoad] = {}
    for token in BENCHES:
        minted, moved = BENCHES[token](unbacked_mints=False), BENCHES[token](unbacked_mints=True)
        figures[token] = {}
        for load, sizes in loads.items():
            progress(f"{token}, {load}")
            ledger = minted if load == "mint" else moved
            figures[token][load] = {size: ledger.measure(load, size) for size in sizes}
    return figures


class ZetoBench(ABC):
    """A ledger of one kind and its owner's coins. Each transaction is a block, so that all storage is cold.

    A ledger with unbacked mints has an ERC-20 too.
    """

    token: str
    kind: Kind

    def __init__(self, unbacked_mints: bool) -> None:
        self._chain: Final = EmbeddedChain(Settings(chain_id=CHAIN_ID), secp256k1)
        self._makers: Final[dict[Leaf, bytes]] = {}
        self._keys: Final[dict[IntentId, PrivateKey]] = {}
        self._written = 0
        parts = [self._deployed(name) for name in LEDGERS[self.token].verifiers]
        arguments = (address_of(ISSUER), *parts, unbacked_mints)
        self.address: Final = self._deployed(LEDGERS[self.token].contract, *arguments)
        self.separator: Final = domain_separator(CHAIN_ID, self.address)
        self._erc20: Final = self._with_erc20() if unbacked_mints else NO_ADDRESS
        if not unbacked_mints:
            self._minted(1)  # The first mint of such a ledger writes a word more.
        self._change: Owned | None = None

    def measure(self, load: str, size: int) -> float:
        """The gas of one transition in a round of `size`."""
        return self._commit(*_LOADS[load](self, size)) / size

    # Loads.

    def transfers(self, size: int) -> list[Transition]:
        """Transfers that spend two coins of two transitions each."""
        coins = self._minted(2 * size)
        return [self._spending((coins[2 * n], coins[2 * n + 1]), (VALUE + 1, VALUE - 1))[0] for n in range(size)]

    def chained(self, size: int) -> list[Transition]:
        """Transfers that spend the change of the previous one."""
        change = self._change or self._minted(1, PLENTY)[0]
        found = []
        for _ in range(size):
            made, (_, change) = self._spending((change,), (1, change.coin.value - 1))
            found.append(made)
        self._change = change
        return found

    def mints(self, size: int) -> list[Transition]:
        """Mints by the issuer."""
        return [self._minting(VALUE)[0] for _ in range(size)]

    def deposits(self, size: int) -> list[Transition]:
        """Deposits of one account."""
        call = deposit_call(self._erc20, address_of(ACCOUNT), self.address, MOVED)
        return [self._spending((), (MOVED,), (call,))[0] for _ in range(size)]

    def withdrawals(self, size: int) -> list[Transition]:
        """Withdrawals to the same account."""
        call = withdrawal_call(self._erc20, address_of(ACCOUNT), MOVED)
        return [self._spending((coin,), (VALUE - MOVED,), (call,))[0] for coin in self._minted(size)]

    def voids(self, size: int) -> list[Transition]:
        """Empty transitions, which only use their intents up."""
        return [self._signed(self._written_out((), (), (), ())[0], b"") for _ in range(size)]

    # Coins.

    def _minted(self, count: int, value: int = VALUE) -> list[Owned]:
        """Mint coins, each in its own transition, and commit them."""
        owned: list[Owned] = []
        for first in range(0, count, MINTED_AT_ONCE):
            made = [self._minting(value) for _ in range(first, min(first + MINTED_AT_ONCE, count))]
            self._commit(*(transition for transition, _ in made))
            owned += [coin for _, coins in made for coin in coins]
        return owned

    def _minting(self, *values: int) -> tuple[Transition, tuple[Owned, ...]]:
        made, coins = self._written_out((), (), values, ())
        return self._signed(made, ISSUER.sign_compact(binding_of(made.leaf, VALID_UNTIL_S))), coins

    def _signed(self, made: Transition, proof: bytes) -> Transition:
        """The transition with its intent key's signature, a depositor's if it takes tokens, and the proof."""
        binding = binding_of(made.leaf, VALID_UNTIL_S)
        depositor = ACCOUNT.sign_compact(binding) if any(map(is_deposit, made.calls)) else b""
        return replace(made, signature=self._keys[made.intent].sign_compact(binding) + depositor + proof)

    def _written_out(
        self, inputs: tuple[StateId, ...], reads: tuple[StateId, ...], values: tuple[int, ...], calls: tuple[Call, ...]
    ) -> tuple[Transition, tuple[Owned, ...]]:
        """A transition that makes coins of these values, without its proof."""
        self._written += 1
        key = PrivateKey(keccak(b"intent %d" % self._written))
        intent = intent_of(key.address)
        self._keys[intent] = key
        coins = tuple(
            Coin(value, int.from_bytes(keccak(b"%d %d" % (self._written, n)), "big") % ORDER, key_of(SCALAR))
            for n, value in enumerate(values)
        )
        info = tuple(coin.commitment.to_bytes(32, "big") for coin in coins)
        outputs = tuple(keccak(b"content" + word) for word in info)
        core = core_of(self.separator, intent, reads=reads, inputs=inputs, outputs=outputs, info=info, calls=calls)
        leaf = leaf_of(core)
        states = tuple(State(StateId(leaf, n), word, ()) for n, word in enumerate(outputs))
        made = Transition(intent, leaf, inputs, reads, states, info, VALID_UNTIL_S, calls=calls)
        self._makers[leaf] = coins_in(made)
        return made, tuple(Owned(state.id, coin) for state, coin in zip(states, coins, strict=True))

    @abstractmethod
    def _spending(
        self, spent: tuple[Owned, ...], values: tuple[int, ...], calls: tuple[Call, ...] = ()
    ) -> tuple[Transition, tuple[Owned, ...]]:
        """A transition that spends these coins, with its proof."""

    @abstractmethod
    def _follow(self, transitions: tuple[Transition, ...]) -> None:
        """Follow transitions that are on the chain now."""

    # The chain.

    def _commit(self, *transitions: Transition) -> int:
        """Commit a round, every transition of which must succeed; returns its gas."""
        payload = encode_payload(transitions, VALID_UNTIL_S)
        receipt = self._sent(self.address, encode_commit(payload, encode_proofs(transitions, self._makers.__getitem__)))
        (log,) = [log for log in receipt.logs if log.topics[0] == ROUND_TOPIC]
        assert int.from_bytes(log.data[:32], "big") == (1 << len(transitions)) - 1, "a transition was skipped"
        self._follow(transitions)
        return receipt.gas_used

    def _with_erc20(self) -> ContractAddress:
        """Deploy an ERC-20; the account has tokens and approves the ledger, and the ledger has some."""
        token = self._deployed("PrivateToken", "T", "T")
        call = encode_call(LEDGERS[self.token].contract, "setERC20", token)
        self._sent(self.address, call + ISSUER.sign_compact(keccak(self.separator + call)))
        for account in (address_of(ACCOUNT), self.address):
            self._sent(token, encode_call("PrivateToken", "mint", account, PLENTY))
        self._sent(token, encode_call("PrivateToken", "approve", self.address, PLENTY))
        return token

    def _deployed(self, name: str, *arguments: object) -> ContractAddress:
        made = self._sent(None, creation_code(name, *arguments)).contract_address
        assert made is not None, f"{name} was deployed"
        return ContractAddress("0x" + made.hex())

    def _sent(self, to: ContractAddress | None, call: bytes) -> Receipt:
        account = DEVELOPMENT_ACCOUNTS[0]
        transaction = DynamicFeeTransaction(
            chain_id=CHAIN_ID,
            nonce=self._chain.next_nonce(account.address),
            max_priority_fee_per_gas=0,
            max_fee_per_gas=FEE_WEI,
            gas_limit=GAS_LIMIT,
            to=address_bytes(to) if to is not None else None,
            data=call,
        )
        receipt = self._chain.history.receipt(self._chain.sign_and_submit(account, transaction))
        assert receipt is not None, "a transaction is in a block at once"
        assert receipt.succeeded, "a transaction failed; the figures would mean nothing"
        return receipt


class AnonBench(ZetoBench):
    """Transitions name the coins that they spend."""

    token = ANON
    kind = Kind.ANON

    def _spending(
        self, spent: tuple[Owned, ...], values: tuple[int, ...], calls: tuple[Call, ...] = ()
    ) -> tuple[Transition, tuple[Owned, ...]]:
        made, owned = self._written_out(tuple(each.state for each in spent), (), values, calls)
        statement = _stated(self.kind, made, tuple(Spent(each.coin) for each in spent), owned)
        return self._signed(made, _proved(statement)), owned

    def _follow(self, transitions: tuple[Transition, ...]) -> None:
        """Nothing to update besides the chain."""


class NullifierBench(ZetoBench):
    """Coins are spent by nullifiers, and proved to be in the tree; one that is not in it yet is read by name."""

    token = ANON_NULLIFIER
    kind = Kind.ANON_NULLIFIER

    def __init__(self, unbacked_mints: bool) -> None:
        self._tree: Final = Members()
        super().__init__(unbacked_mints)
        for _ in range(0, IN_TREE, MINTS_MAX):
            self._commit(self._minting(*(VALUE,) * MINTS_MAX)[0])

    def _spending(
        self, spent: tuple[Owned, ...], values: tuple[int, ...], calls: tuple[Call, ...] = ()
    ) -> tuple[Transition, tuple[Owned, ...]]:
        paths = [self._tree.path_to(each.coin.commitment) for each in spent]
        pending = [each for each, path in zip(spent, paths, strict=True) if path is None]
        inputs = tuple(nullifier_reference(each.coin.nullifier(SCALAR).to_bytes(32, "big")) for each in spent)
        made, owned = self._written_out(inputs, tuple(each.state for each in pending), values, calls)
        shown = tuple(Spent(each.coin, path or ()) for each, path in zip(spent, paths, strict=True))
        statement = replace(
            _stated(self.kind, made, shown, owned),
            root=self._tree.root if len(spent) > len(pending) else EMPTY,
            pending=pending[0].coin.commitment if pending else EMPTY,
        )
        return self._signed(made, rooted(Roots(statement.root.to_bytes(32, "big")), _proved(statement))), owned

    def _follow(self, transitions: tuple[Transition, ...]) -> None:
        """Extend the tree like the contract's."""
        self._tree.extend([each.info for each in transitions])


def _stated(kind: Kind, made: Transition, spent: tuple[Spent, ...], owned: tuple[Owned, ...]) -> Statement:
    return Statement(
        kind,
        SCALAR if spent else 0,
        spent,
        tuple(each.coin for each in owned),
        int.from_bytes(binding_of(made.leaf, VALID_UNTIL_S), "big") % ORDER,
        net=net_of(*moved_by(made.calls)),
    )


def _proved(statement: Statement) -> bytes:
    return prove(_key(statement.circuit), trace(statement)).to_bytes()


@cache
def _key(circuit: Circuit) -> ProvingKey:
    return load_key(DEVELOPMENT_KEYS, circuit)


BENCHES: Final[Mapping[str, type[ZetoBench]]] = {ANON: AnonBench, ANON_NULLIFIER: NullifierBench}
_LOADS: Final[Mapping[str, Callable[[ZetoBench, int], list[Transition]]]] = {
    "transfer": ZetoBench.transfers,
    "chained": ZetoBench.chained,
    "mint": ZetoBench.mints,
    "deposit": ZetoBench.deposits,
    "withdrawal": ZetoBench.withdrawals,
    "void": ZetoBench.voids,
}
