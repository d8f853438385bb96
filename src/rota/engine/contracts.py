"""The contracts of this node: their genesis, their record on the chain, and their domains.

A contract is taken in once: its genesis must have the hash that is on the chain, its address the policy that the
factory's event reported, and where this node endorses, its own key must be among the signers. Then it is in the store,
and every run of the node has it. The set of contracts grows while a node runs, and never shrinks.

Anyone can deploy contracts that a node takes in, so the memory they use is bounded. A genesis stays in the store; the
members and configuration read from it are in memory. Contracts have a quota, by the peer that they came from and in
total, in number and, where their genesis is large, in bytes. Beyond it a node takes in no more of them. Half of the
places are reserved for peers that have few, so that peers with very many do not exclude the others.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from rota.calldata import is_nullifier
from rota.domains.available import known_in
from rota.domains.base import ProvedLedger, Rejected
from rota.domains.pente.groups import group_in
from rota.domains.records import Record
from rota.engine.development_keys import rests_on_development_keys
from rota.host import (
    AnyDomain,
    ContractDefaults,
    Hosted,
    SecretOf,
    deploy,
    genesis_of,
    open_genesis,
    read_configuration,
)
from rota.keys.names import endorser_key
from rota.ledger.proved_ledgers import LedgerCode, code_for
from rota.model.blocks import FactoryDeployment
from rota.model.digests import state_commitment
from rota.model.genesis import Genesis, MalformedGenesis, decode_genesis, genesis_hash
from rota.model.types import (
    NO_CONTRACT,
    NOTHING_CHOSEN,
    RANGE_SIZE_MAX,
    ContractAddress,
    IntentId,
    KnownContract,
    NodeName,
    Party,
    SequencingChoice,
    State,
)
from rota.ports import Policy, Signer, Unavailable
from rota.wire.limits import DEFAULT_LIMITS
from rota.wire.values import name_flaw

# A genesis of up to this size counts against no quota of bytes: deploying it costs more than storing it.
SMALL_GENESIS_BYTES: Final = 16_384
LARGE_OF_PEER_BYTES_MAX: Final = 8_388_608
LARGE_BYTES_MAX: Final = 134_217_728
CONTRACTS_MAX: Final = 131_072
CONTRACTS_OF_PEER_MAX: Final = 32_768
# A peer with this many contracts gets no more when half of all places are taken.
CONTRACTS_OF_PEER_RESERVED: Final = 1_024
PROPOSED_GROUPS_MAX: Final = 65_536
# More than the states of several frames, which are written after they were decrypted.
NULLIFIERS_KEPT_MAX: Final = 65_536
DEVELOPMENT_KEYS_REFUSED: Final = (
    "the development keys, which whoever made them can forge, and the operator of this node does not allow these: "
    "proving.allow_development_keys is not set"
)


class ContractRefused(Rejected):
    """A contract cannot be taken in; names the wrong field of its genesis, and a valid value."""


class KnownContracts:
    """`ports.Contracts` and `ports.Deployments` of one node, and the domain that hosts each contract."""

    def __init__(
        self,
        node: NodeName,
        chain_id: int,
        domains: Mapping[str, AnyDomain],
        salt_key: bytes,
        factory: ContractAddress | None = None,
        secret_of: SecretOf = lambda _: None,
        allows_development_keys: bool = False,
    ) -> None:
        self.allows_development_keys: Final = allows_development_keys
        # Called with every contract that this node has, once its domain is loaded.
        self.when_hosted: Callable[[ContractAddress], None] = lambda _: None
        self._on_development_keys: Final[set[ContractAddress]] = set()
        self._secret_of: Final = secret_of
        self._node: Final = node
        self._chain_id: Final = chain_id
        self._domains: Final = domains
        self._salt_key: Final = salt_key
        self._factory: Final = factory
        # Without the genesis, which is in the store.
        self._known: Final[dict[ContractAddress, KnownContract]] = {}
        self._groups: Final[dict[ContractAddress, bytes]] = {}
        # Users name a group by its id, so no id should have two contracts. For each id: the deployment of its first
        # contract, all its contracts, and the peer that first proposed a group with it, with the deployment.
        self._deployment_of_group: Final[dict[bytes, IntentId]] = {}
        self._contracts_of_group: Final[dict[bytes, tuple[ContractAddress, ...]]] = {}
        self._proposed_groups: Final[dict[bytes, tuple[NodeName, IntentId]]] = {}
        self._large_bytes: Final[dict[NodeName, int]] = {}
        self._from_peers: Final[Counter[NodeName]] = Counter()
        self._hosted: Final[dict[ContractAddress, Hosted]] = {}
        # By contract and commitment; None for a state that no nullifier of this node spends.
        self._nullifiers: Final[dict[tuple[ContractAddress, bytes], bytes | None]] = {}
        self._unhosted: Final[dict[ContractAddress, str]] = {}
        self._quarantined: Final[dict[ContractAddress, str]] = {}
        self._addresses: tuple[ContractAddress, ...] | None = ()
        self.is_complete = True
        self._audiences: Final[dict[ContractAddress, frozenset[NodeName] | None]] = {}
        self._in_order: Final[list[ContractAddress]] = []

    def add(self, known: KnownContract) -> None:
        """Add a contract. Without its domain the node can follow it, but do nothing in it."""
        address = known.contract.address
        if address not in self._known and known.source is not None:
            self._from_peers[known.source] += 1
            if len(known.genesis) > SMALL_GENESIS_BYTES:
                self._large_bytes[known.source] = self._large_bytes.get(known.source, 0) + len(known.genesis)
        self._known[address] = replace(known, genesis=b"")
        self._addresses = None
        try:
            genesis = decode_genesis(known.genesis)
            group = group_in(genesis)
            if group is not None:
                self._deployment_of_group.setdefault(group.id, known.deployment)
                others = self._contracts_of_group.get(group.id, ())
                self._contracts_of_group[group.id] = tuple(dict.fromkeys((*others, address)))
            if address in self._quarantined:
                self._unhosted[address] = (
                    f"{address} is quarantined: {self._quarantined[address]}. An operator can release it with "
                    f"`rota contract release {address}` and restart the node"
                )
                return
            if group is not None:
                self._groups[address] = group.id
            if address not in self._audiences:
                insort(self._in_order, address)
            self._audiences[address] = genesis.audience
            hosted = open_genesis(self._domains, genesis, address, self._salt_key, self._secret_of)
            self._hosted[address] = hosted
            if _can_be_forged(hosted.domain.ledger_of(hosted.configuration)):
                self._on_development_keys.add(address)
            self.when_hosted(address)
        except (MalformedGenesis, Rejected) as flaw:
            self._unhosted[address] = str(flaw)

    def known(self, contract: ContractAddress) -> KnownContract | None:
        """Return the contract's record without its genesis, or None."""
        return self._known.get(contract)

    def group_of(self, contract: ContractAddress) -> bytes | None:
        """Return the id of its privacy group, or None."""
        return self._groups.get(contract)

    def contracts_of_group(self, group: bytes) -> tuple[ContractAddress, ...]:
        """Return all contracts of privacy groups with this id. A group's creator draws the id; a liar may copy it."""
        return self._contracts_of_group.get(group, ())

    def require_room(self, peer: NodeName, genesis: bytes) -> None:
        """Raise `Unavailable` when there is no room for one more contract from this peer."""
        if len(self._known) >= CONTRACTS_MAX:
            raise Unavailable(f"{self._node} has {CONTRACTS_MAX} contracts, and takes no more")
        is_half_free = len(self._known) < CONTRACTS_MAX // 2
        if self._from_peers[peer] >= (CONTRACTS_OF_PEER_MAX if is_half_free else CONTRACTS_OF_PEER_RESERVED):
            raise Unavailable(f"{self._node} has {self._from_peers[peer]} contracts from {peer}, and takes no more")
        if len(genesis) <= SMALL_GENESIS_BYTES:
            return
        most = f"of geneses over {SMALL_GENESIS_BYTES} bytes, and takes no more of them"
        if self._large_bytes.get(peer, 0) + len(genesis) > LARGE_OF_PEER_BYTES_MAX:
            raise Unavailable(f"{self._node} has {LARGE_OF_PEER_BYTES_MAX} bytes from {peer} {most}")
        if sum(self._large_bytes.values()) + len(genesis) > LARGE_BYTES_MAX:
            raise Unavailable(f"{self._node} has {LARGE_BYTES_MAX} bytes {most}")

    def hosted(self, contract: ContractAddress) -> Hosted | None:
        """Return the contract with its domain; None when the node does not have it or its domain is not loaded.

        Raises `Unavailable` until the contracts are loaded from the store, so that a user gets no false "not found".
        """
        hosted = self._hosted.get(contract)
        if hosted is None and not self.is_complete:
            raise Unavailable(f"{self._node} has not begun: it does not know its contracts yet")
        return hosted

    def nullifier_of(self, contract: ContractAddress, state: State) -> bytes | None:
        """Return the word that spends a state in place of its id, or None: a party's nullifier, or the end of a lock.

        Computing it takes milliseconds, so it is cached, by content: a peer may lie about a state's id.
        """
        hosted = self._hosted.get(contract)
        if hosted is None or state.content is None:
            return None
        if hosted.domain.changes_locks:
            read = known_in(hosted.known, state)
            found = hosted.stands_for(read) if read is not None else None
            return found.word if found is not None else None
        if not hosted.domain.ledgers:
            return None
        key = (contract, state_commitment(state.content))
        if key not in self._nullifiers:
            read = known_in(hosted.known, state)
            reference = hosted.spent_as(read) if read is not None else None
            is_one = reference is not None and is_nullifier(reference)
            self._nullifiers[key] = reference.leaf if reference is not None and is_one else None
            if len(self._nullifiers) > NULLIFIERS_KEPT_MAX:
                del self._nullifiers[next(iter(self._nullifiers))]
        return self._nullifiers[key]

    def may_have_tree(self, contract: ContractAddress) -> bool:
        """Return whether its proofs refer to a tree.

        True if not hosted yet: it may have rounds before it is taken in.
        """
        hosted = self._hosted.get(contract)
        return hosted is None or hosted.domain.tree_of(hosted.configuration) is not None

    def domain_of(self, contract: ContractAddress) -> str:
        """Return the name of its domain; empty when the domain is not loaded."""
        hosted = self._hosted.get(contract)
        return hosted.domain.name if hosted is not None else ""

    @property
    def domain_names(self) -> tuple[str, ...]:
        """The names of the installed domains, sorted."""
        return tuple(sorted(self._domains))

    def domain_named(self, name: str) -> AnyDomain | None:
        """Return the domain of this name, or None."""
        return self._domains.get(name)

    def quarantine(self, reasons: Mapping[ContractAddress, str]) -> None:
        """Set the quarantined contracts, before any contract is added: they are known, but nothing is done in them."""
        self._quarantined.update(reasons)

    def is_quarantined(self, contract: ContractAddress) -> bool:
        """Return whether the database rejected its records in an earlier run and it has not been released since."""
        return contract in self._quarantined

    @property
    def unhosted(self) -> Mapping[ContractAddress, str]:
        """For an operator: the contracts in which nothing can be done, and why."""
        return self._unhosted

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for an operator, reported beside readiness."""
        count = len(self._on_development_keys)
        if not count:
            return ()
        contracts = "contract takes" if count == 1 else "contracts take"
        return (
            f"{count} {contracts} proofs by the development keys, which whoever made them can forge: not for value",
        )

    # For other nodes.

    def open_to(self, node: NodeName, after: ContractAddress, limit: int) -> tuple[ContractAddress, ...]:
        """Return up to `limit` contracts that a node may know of, by address, after this one."""
        found: list[ContractAddress] = []
        for address in self._in_order[bisect_right(self._in_order, after) :]:
            audience = self._audiences[address]
            if audience is None or node in audience:
                found.append(address)
                if len(found) == limit:
                    break
        return tuple(found)

    # `ports.Contracts` and `ports.Deployments`.

    def addresses(self) -> tuple[ContractAddress, ...]:
        """Return all of them. The tuple is built on demand: a start adds up to `CONTRACTS_MAX` one after another."""
        if self._addresses is None:
            self._addresses = tuple(self._known)
        return self._addresses

    def policy_of(self, contract: ContractAddress) -> Policy | None:
        """Return the signers of its rounds and their threshold; None when the contract is not known."""
        known = self._known.get(contract)
        if known is None:
            return None
        return Policy(tuple(zip(known.contract.endorsers, known.signers, strict=True)), known.contract.threshold)

    def deployment_of(self, contract: ContractAddress) -> IntentId | None:
        """Return the id under which the factory deployed it; None when the contract is not known."""
        known = self._known.get(contract)
        return known.deployment if known is not None else None

    # Contracts to be deployed.

    def plan(
        self,
        domain: str,
        arguments: object,
        sender: Party,
        defaults: ContractDefaults,
        salt: bytes,
        sequencing: SequencingChoice = NOTHING_CHOSEN,
    ) -> Genesis:
        """Return the genesis of a contract that a user requests. `domains.base.Rejected` names the wrong field."""
        found = self._domains.get(domain)
        if found is None:
            raise Rejected("domain", f"must be one of {', '.join(sorted(self._domains))}, not {domain!r}")
        wanted = deploy(found, arguments, sender)
        if not self.allows_development_keys and _can_be_forged(found.ledger_of(wanted.configuration)):
            raise Rejected("domain", f"{domain} takes proofs by {DEVELOPMENT_KEYS_REFUSED}")
        ledger = self._ledger_hash(found, wanted.configuration)
        genesis = genesis_of(found, wanted, defaults, salt, ledger, sequencing)
        open_genesis(self._domains, genesis, NO_CONTRACT, self._salt_key)
        if not genesis.threshold and not genesis.ledger:
            raise Rejected("domain", f"{domain} asks for neither endorsement nor proofs, so nobody could trust it")
        return genesis

    def ledger_for(self, domain: str, configuration: bytes) -> LedgerCode | None:
        """Return the code of a contract's ledger that is not the factory's own; None if it has none or is invalid."""
        found = self._domains.get(domain)
        if found is None:
            return None
        try:
            return self._ledger_code(found, read_configuration(found, configuration))
        except Rejected:
            return None

    def _ledger_code(self, domain: AnyDomain, configuration: Record) -> LedgerCode | None:
        if self._factory is None:
            if domain.carrier(configuration) is None and domain.ledger_of(configuration) is None:
                return None
            raise Unavailable(f"ledger.factory: must be set at {self._node}")
        try:
            return code_for(domain, configuration, self._factory)
        except Exception as error:
            # The proposer's configuration goes into the code.
            raise Rejected("configuration", f"there is no ledger for it: {error}") from None

    def _ledger_hash(self, domain: AnyDomain, configuration: Record) -> bytes:
        code = self._ledger_code(domain, configuration)
        return code.hash if code is not None else b""

    def consider(
        self,
        encoded: bytes,
        deployment: IntentId,
        signers: tuple[ContractAddress, ...],
        signer: Signer,
        proposer: NodeName | None = None,
    ) -> ContractAddress | None:
        """Return the address with which this node would endorse in it; None when it would not endorse.

        Raises `ContractRefused` when this node would not take it in. If the signers are known, the one for this node
        must be its own address; other endorsers check theirs. A genesis that is on the chain has no proposer.
        """
        genesis = self._opened(encoded, NO_CONTRACT)
        if proposer != self._node and not genesis.is_open_to(self._node):
            raise ContractRefused("genesis", f"{self._node} has no part in it")
        group = group_in(genesis)
        if group is not None:
            self._require_free_id(group.id, deployment, proposer)
        ours = None
        if self._node in genesis.endorsers:
            ours = signer.address_of(endorser_key(self._node, deployment))
        if signers and len(signers) != len(genesis.endorsers):
            raise ContractRefused("signers", f"must be {len(genesis.endorsers)}, not {len(signers)}")
        if signers and ours is not None and signers[genesis.endorsers.index(self._node)] != ours:
            raise ContractRefused("signers", f"must have {ours} for {self._node}")
        if group is not None and proposer is not None:
            self._proposed_groups[group.id] = (proposer, deployment)
            if len(self._proposed_groups) > PROPOSED_GROUPS_MAX:
                del self._proposed_groups[next(iter(self._proposed_groups))]
        return ours

    def _require_free_id(self, group: bytes, deployment: IntentId, proposer: NodeName | None) -> None:
        """Refuse an id that another group has, or that another peer proposed.

        The same proposer may propose it again.
        """
        if proposer != self._node and self._deployment_of_group.get(group, deployment) != deployment:
            raise ContractRefused("genesis.configuration.salt", f"{self._node} has another group of this id")
        first, proposed = self._proposed_groups.get(group, (proposer, deployment))
        if proposed != deployment and first != proposer:
            raise ContractRefused("genesis.configuration.salt", f"{first} proposed another group of this id before")

    def _opened(self, encoded: bytes, address: ContractAddress) -> Genesis:
        """Return the genesis, checked by its domain and for this chain. `ContractRefused` names what is wrong."""
        try:
            genesis = decode_genesis(encoded)
            opened = open_genesis(self._domains, genesis, address, self._salt_key)
            ledger = self._ledger_hash(opened.domain, opened.configuration)
        except (MalformedGenesis, Rejected) as flaw:
            raise ContractRefused("genesis", str(flaw)) from None
        if genesis.range_size > RANGE_SIZE_MAX:
            raise ContractRefused("genesis.range_size", f"must be from 1 to {RANGE_SIZE_MAX} blocks")
        most = genesis.contract(address).virtual_nodes_max
        if genesis.virtual_nodes > most:
            count = len(genesis.committee)
            raise ContractRefused("genesis.virtual_nodes", f"must be from 1 to {most} with {count} coordinators")
        # Members are named in messages between the others, and a frame with a malformed name ends a connection.
        for name in (*genesis.nodes, *genesis.members):
            if wrong := name_flaw(name, DEFAULT_LIMITS):
                raise ContractRefused("genesis", wrong)
        if genesis.ledger != ledger:
            raise ContractRefused("genesis.ledger", f"must be 0x{ledger.hex()}, the code that {self._node} has for it")
        if genesis.chain_id != self._chain_id:
            raise ContractRefused("genesis.chain_id", f"must be {self._chain_id}, not {genesis.chain_id}")
        return genesis

    # Taking in contracts.

    def judge(self, encoded: bytes, told: FactoryDeployment, signer: Signer) -> KnownContract:
        """Return the contract that genesis and factory event describe; `ContractRefused` where they differ."""
        genesis = self._opened(encoded, told.contract)
        if genesis_hash(encoded) != told.genesis:
            raise ContractRefused("genesis", f"its hash must be 0x{told.genesis.hex()}, which stands on the chain")
        if told.ledger != genesis.ledger:
            raise ContractRefused("genesis.ledger", "the contract on the chain is made of other code")
        if (len(told.endorsers), told.threshold) != (len(genesis.endorsers), genesis.told_threshold):
            there = f"{told.threshold} of {len(told.endorsers)}"
            raise ContractRefused("genesis.endorsers", f"the contract on the chain asks for {there} signatures")
        if self._node in genesis.endorsers:
            expected = told.endorsers[genesis.endorsers.index(self._node)]
            ours = signer.address_of(endorser_key(self._node, told.intent))
            if ours != expected:
                raise ContractRefused("genesis.endorsers", f"the chain has {expected} for us, and our key is {ours}")
        return KnownContract(genesis.contract(told.contract), told.intent, told.endorsers, encoded)


def _can_be_forged(ledger: ProvedLedger | None) -> bool:
    return ledger is not None and rests_on_development_keys(ledger)
