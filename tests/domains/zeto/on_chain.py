"""A token's ledger on a chain under test, with the real verifiers: coins, transitions, their proofs, and commits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rota.digests import core_of, domain_separator, keccak, leaf_of
from rota.domains.zeto.babyjubjub import Point, key_of
from rota.domains.zeto.circuits import Kind, Spent, Statement
from rota.domains.zeto.coins import Coin, net_of
from rota.domains.zeto.domain import ANON, LEDGERS
from rota.domains.zeto.field import ORDER
from rota.domains.zeto.reserve import moved_by
from rota.keys.secp256k1 import PrivateKey
from rota.ledger.bindings import deploy_proved, encode_call, read_deployment
from rota.ledger.hexadecimal import data
from rota.ledger.proofs import binding_of, encode_proofs
from rota.ledger.proved_ledgers import code_of
from rota.ledger.reading import CallReceipt
from rota.payload import NO_CONDITION, AuthCost, Entry, encode_commit, encode_payload, gas_bound
from rota.types import Call, ContractAddress, IntentId, Leaf, Preparation, State, StateId, Transition
from tests.contracts.evm import decode_error
from tests.domains.zeto.prover import proved
from tests.ledger.chains import CHAIN_ID, Chain, RpcRejected
from tests.ledger.participant import DEPLOYER, deploy_contract, send

VALID_UNTIL_S = 2**40
CALL_GAS = 4_000_000
ISSUER = PrivateKey(keccak(b"issuer"))
ALICE, BOB = 1_234_567, 7_654_321


def coin(value: int, scalar: int = ALICE, salt: int = 1, delegate: int = 0) -> Coin:
    return Coin(value, salt, _key(scalar), delegate)


def _key(scalar: int) -> Point:
    return key_of(scalar)


@dataclass(frozen=True, slots=True)
class Made:
    """A transition and the coins that it makes."""

    transition: Transition
    coins: tuple[Coin, ...]
    statement: Statement | None = None

    @property
    def ids(self) -> tuple[StateId, ...]:
        return tuple(state.id for state in self.transition.outputs)


@dataclass(slots=True)
class TokenLedger:
    """One contract; its makers are remembered by their leaves."""

    chain: Chain
    address: ContractAddress
    separator: bytes
    intents: int = 0
    coins: dict[Leaf, bytes] = field(default_factory=dict)

    def written(
        self,
        inputs: tuple[StateId, ...],
        commitments: tuple[bytes, ...],
        preparation: Preparation | None = None,
        intent: int | None = None,
        separator: bytes | None = None,
        calls: tuple[Call, ...] = (),
    ) -> Transition:
        """A transition without a proof."""
        self.intents += 1
        number = self.intents if intent is None else intent
        identity = IntentId(keccak(b"intent %d" % number)[:16])
        outputs = tuple(keccak(b"content of " + each) for each in commitments)
        domain = separator or self.separator
        core = core_of(domain, identity, inputs=inputs, outputs=outputs, info=commitments, calls=calls)
        leaf = leaf_of(core, preparation)
        self.coins[leaf] = b"".join(commitments)
        states = tuple(State(StateId(leaf, n), each, ()) for n, each in enumerate(outputs))
        return Transition(
            identity, leaf, inputs, (), states, commitments, VALID_UNTIL_S, calls=calls, preparation=preparation
        )

    def mint(self, *coins: Coin) -> Made:
        """Coins of nothing, which the issuer signs for."""
        made = self.written((), words(coins))
        signature = ISSUER.sign_compact(binding_of(made.leaf, VALID_UNTIL_S))
        return Made(replace(made, signature=signature), coins)

    def pay(
        self,
        inputs: tuple[tuple[StateId, Coin], ...],
        outputs: tuple[Coin, ...],
        scalar: int = ALICE,
        intent: int | None = None,
        preparation: Preparation | None = None,
        calls: tuple[Call, ...] = (),
        depositor: PrivateKey | None = None,
    ) -> Made:
        """A transfer with its proof; with a call, a deposit or a withdrawal."""
        made = self.written(tuple(state for state, _ in inputs), words(outputs), preparation, intent, calls=calls)
        binding = binding_of(made.leaf, VALID_UNTIL_S)
        stated = Statement(
            Kind.ANON,
            scalar,
            tuple(Spent(each) for _, each in inputs),
            outputs,
            int.from_bytes(binding, "big") % ORDER,
            net=net_of(*moved_by(calls)),
            delegate=int(preparation.committer, 16) if preparation is not None else 0,
        )
        signature = depositor.sign_compact(binding) if depositor is not None else b""
        return Made(replace(made, signature=signature + proved(stated)), outputs, stated)

    def call_data(self, *entries: Entry) -> bytes:
        payload = encode_payload(entries, VALID_UNTIL_S)
        return encode_commit(payload, encode_proofs(entries, self.coins.__getitem__), NO_CONDITION)

    async def commit(self, *made: Made) -> CallReceipt:
        """Commit for good, within the gas that it is said to take at most."""
        entries = tuple(each.transition for each in made)
        limit = gas_bound(entries, VALID_UNTIL_S, AuthCost.of_proofs())
        call = data(self.call_data(*entries))
        return await send(self.chain, {"to": self.address, "data": call, "gas": hex(limit)})

    async def refusal(self, *entries: Entry) -> str:
        """Why the contract would not take this; empty when it would."""
        wanted = {"from": DEPLOYER, "to": self.address, "data": data(self.call_data(*entries)), "gas": hex(CALL_GAS)}
        try:
            await self.chain.rpc("eth_call", wanted, "latest")
        except RpcRejected as rejected:
            told = str(rejected.data)
        else:
            return ""
        return str(decode_error(bytes.fromhex(told.removeprefix("0x"))))

    async def committed(self, *entries: Entry) -> int:
        """What a commit would answer: which of them would be committed now."""
        wanted = {"from": DEPLOYER, "to": self.address, "data": data(self.call_data(*entries)), "gas": hex(CALL_GAS)}
        answer = await self.chain.rpc("eth_call", wanted, "latest")
        return int(answer[2:66], 16)


def words(coins: tuple[Coin, ...]) -> tuple[bytes, ...]:
    return tuple(each.commitment.to_bytes(32, "big") for each in coins)


async def token_ledger(chain: Chain, factory: ContractAddress | None = None, number: int = 0) -> TokenLedger:
    """A new token on this chain, deployed as a node does it."""
    factory = factory or await deploy_contract(chain, "Factory")
    code = code_of(LEDGERS[ANON], factory)
    for verifier in code.verifiers:
        await send(chain, {"to": factory, "data": data(encode_call("Factory", "place", verifier.code))})
        assert await chain.rpc("eth_getCode", verifier.address, "latest") != "0x"
    issuer = ContractAddress("0x" + ISSUER.address.hex())
    call = deploy_proved(IntentId(keccak(b"%d" % number)[:16]), bytes(32), issuer, code.code, code.arguments)
    receipt = await send(chain, {"to": factory, "data": data(call)})
    told = read_deployment(receipt.logs[-1])
    assert (told.endorsers, told.threshold, told.ledger) == ((issuer,), 0, code.hash)
    return TokenLedger(chain, told.contract, domain_separator(CHAIN_ID, told.contract))
