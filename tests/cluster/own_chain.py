"""What happened on a chain, read by the tests themselves: their own requests, their own replay, no part of a node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import aiohttp

from rota.calldata import ROUND_TOPIC, FullLeaf, Malformed, decode_round_log
from rota.localnet.chains import CHAIN_ID
from rota.model.digests import domain_separator
from rota.model.types import ContractAddress, NodeName, State, StateId, Transition


@dataclass(frozen=True)
class Effect:
    """A transition that a block committed. Who is on the lists of its states the chain does not say: everybody."""

    height: int
    transition: Transition
    transaction: str


@dataclass(frozen=True)
class OwnChain:
    """A chain up to its head: every effect in order, and which states are left."""

    height: int
    effects: tuple[Effect, ...]
    unspent: frozenset[StateId]


async def rpc(url: str, method: str, *parameters: object) -> Any:  # noqa: ANN401
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(parameters)}
    async with aiohttp.ClientSession() as session, session.post(url, json=request) as response:
        answer = await response.json()
    assert "error" not in answer, answer["error"]
    return answer["result"]


async def read_chain(url: str, contract: ContractAddress, nodes: tuple[NodeName, ...]) -> OwnChain:
    head = await rpc(url, "eth_blockNumber")
    topics = ["0x" + ROUND_TOPIC.hex()]
    wanted = {"address": contract, "fromBlock": "0x0", "toBlock": head, "topics": topics}
    effects: list[Effect] = []
    unspent: dict[StateId, None] = {}
    for log in await rpc(url, "eth_getLogs", wanted):
        given = tuple(bytes.fromhex(topic[2:]) for topic in log["topics"])
        told = decode_round_log(given, bytes.fromhex(log["data"][2:]), domain_separator(CHAIN_ID, contract))
        assert not isinstance(told, Malformed), told
        full = {entry.leaf: entry for entry in told.payload.entries if isinstance(entry, FullLeaf)}
        for committal in told.committals:
            if committal.is_committed:
                transition = _transition(full[committal.leaf], nodes)
                effects.append(Effect(int(log["blockNumber"], 16), transition, log["transactionHash"]))
                for spent in transition.inputs:
                    unspent.pop(spent, None)
                unspent.update(dict.fromkeys(state.id for state in transition.outputs))
    return OwnChain(int(head, 16), tuple(effects), frozenset(unspent))


def _transition(leaf: FullLeaf, nodes: tuple[NodeName, ...]) -> Transition:
    made = leaf.outputs if leaf.outputs is not None else (b"",) * leaf.output_count
    outputs = tuple(State(StateId(leaf.leaf, n), commitment, nodes) for n, commitment in enumerate(made))
    return Transition(leaf.intent, leaf.leaf, leaf.inputs, leaf.reads, outputs)
