"""Deploys a new contract and gives it to the nodes that take part in it.

    genesis, by the domain -> each endorser's address, from its node -> one transaction to the factory
    -> each node takes the contract in, after comparing genesis and chain

Everything up to the transaction can be repeated without a trace. After it the contract exists permanently; a node that
is unreachable then is named in the result, and takes the contract in later.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from rota import host
from rota.client import Client, ClientError
from rota.domains.base import Rejected
from rota.ledger.account import Account
from rota.ledger.bindings import deploy_endorsed, deploy_proved
from rota.ledger.proved_ledgers import code_for
from rota.model.genesis import SALT_BYTES, Genesis, encode_genesis, genesis_hash
from rota.model.types import NOTHING_CHOSEN, ContractAddress, IntentId, NodeName, Party, SequencingChoice, node_of

NODES_MAX: Final = 256


class NodesMissing(Exception):
    """Nodes that the genesis names are not among those given."""


@dataclass(frozen=True, slots=True)
class CreatedContract:
    """A contract that is on the chain, with the data that its members need to take it in.

    `untaken` has the reason of each node that did not take it in.
    """

    address: ContractAddress
    deployment: IntentId
    genesis: Genesis
    encoded: bytes
    taken_in: tuple[NodeName, ...]
    untaken: Mapping[NodeName, str]


async def named(clients: tuple[Client, ...]) -> dict[NodeName, Client]:
    """The nodes by their own names. `ClientError` when one does not answer."""
    assert len(clients) <= NODES_MAX, f"at most {NODES_MAX} nodes"
    names = await asyncio.gather(*(client.name() for client in clients))
    return dict(zip(names, clients, strict=True))


def genesis_for(
    domain: str,
    arguments: object,
    sender: Party,
    defaults: host.ContractDefaults,
    factory: ContractAddress,
    sequencing: SequencingChoice = NOTHING_CHOSEN,
) -> Genesis:
    """Encode a constructor's arguments by the domain. `domains.base.Rejected` names the wrong one."""
    domains = host.load_domains()
    if domain not in domains:
        raise Rejected("domain", f"must be one of {', '.join(sorted(domains))}, not {domain!r}")
    wanted = host.deploy(domains[domain], arguments, sender)
    salt = secrets.token_bytes(SALT_BYTES)
    code = code_for(domains[domain], wanted.configuration, factory)
    hashed = code.hash if code is not None else b""
    return host.genesis_of(domains[domain], wanted, defaults, salt, hashed, sequencing)


async def create_contract(
    genesis: Genesis, nodes: Mapping[NodeName, Client], factory: ContractAddress, account: Account
) -> CreatedContract:
    """Deploy a contract through the factory, and have all these nodes take it in.

    `NodesMissing` and `ClientError` before anything is deployed; `TransactionRejected` when the chain rejects it.
    """
    concerned = dict.fromkeys((*genesis.endorsers, *genesis.committee, *map(node_of, genesis.members)))
    if absent := [node for node in concerned if node not in nodes]:
        raise NodesMissing(f"{', '.join(absent)}: has a part in the contract, and is not among the nodes")
    deployment = IntentId(uuid4().bytes)
    encoded = encode_genesis(genesis)
    signers = await asyncio.gather(*(nodes[node].endorser_address(deployment) for node in genesis.endorsers))
    await account.transact(factory, _call_of(genesis, encoded, deployment, tuple(signers), factory))
    return await hand_out(genesis, encoded, deployment, nodes)


def _call_of(
    genesis: Genesis,
    encoded: bytes,
    deployment: IntentId,
    signers: tuple[ContractAddress, ...],
    factory: ContractAddress,
) -> bytes:
    """The call that deploys the contract. `Rejected` for a ledger with verifiers, which only nodes deploy."""
    if not genesis.ledger:
        return deploy_endorsed(deployment, genesis_hash(encoded), signers, genesis.threshold)
    domain = host.load_domains()[genesis.domain]
    code = code_for(domain, host.read_configuration(domain, genesis.configuration), factory)
    assert code is not None, "the genesis was made by one of these domains"
    if code.verifiers:
        raise Rejected("domain", f"must be deployed by a node, as its ledger has verifiers: {genesis.domain}")
    (issuer,) = signers
    return deploy_proved(deployment, genesis_hash(encoded), issuer, code.code, code.arguments)


async def hand_out(
    genesis: Genesis, encoded: bytes, deployment: IntentId, nodes: Mapping[NodeName, Client]
) -> CreatedContract:
    """Have these nodes take in a contract that is on the chain. `ClientError` when none of them does."""
    answers = await asyncio.gather(
        *(client.add_contract(encoded, deployment) for client in nodes.values()), return_exceptions=True
    )
    taken: dict[NodeName, ContractAddress] = {}
    untaken: dict[NodeName, str] = {}
    for node, answer in zip(nodes, answers, strict=True):
        if isinstance(answer, ClientError):
            untaken[node] = str(answer)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            taken[node] = answer
    if not taken:
        raise next(answer for answer in answers if isinstance(answer, ClientError))
    addresses = set(taken.values())
    assert len(addresses) == 1, f"all nodes hold the same chain, and tell {sorted(addresses)}"
    return CreatedContract(addresses.pop(), deployment, genesis, encoded, tuple(taken), untaken)
