"""An account that sees an id before it is used deploys a contract under it that logs a round: the node goes on."""

from __future__ import annotations

from pathlib import Path

from rota.calldata import ROUND_TOPIC
from rota.ledger.bindings import deploy_proved
from rota.ledger.hexadecimal import data
from rota.model.digests import INTENT_BYTES
from rota.model.types import ContractAddress, NodeName, Outcome
from tests.ledger.chains import in_loop
from tests.ledger.participant import PAYER
from tests.service.kit import ALICE, network, send

NODE1, NODE2 = NodeName("node1"), NodeName("node2")
WORD_BYTES = 32


def _word(number: int) -> bytes:
    return number.to_bytes(WORD_BYTES, "big")


def _contract_that_logs_a_round() -> bytes:
    """Creation code whose constructor emits a `Round` in which a transition without inputs is committed."""
    payload = _word(0)[:8] + bytes((1, 0x81, 0, 0x01, 0)) + b"i" * (INTENT_BYTES - 1) + _word(7)
    log = _word(1) + _word(2 * WORD_BYTES) + _word(len(payload)) + payload + bytes(-len(payload) % WORD_BYTES)
    size = len(log).to_bytes(2, "big")
    # PUSH2 size, PUSH2 place, PUSH1 0, CODECOPY; PUSH32 digest, PUSH32 topic, PUSH2 size, PUSH1 0, LOG2; RETURN 1 byte.
    emit = b"\x7f" + _word(9) + b"\x7f" + ROUND_TOPIC + b"\x61" + size + bytes.fromhex("6000a2")
    head = b"\x61" + size + b"\x61%s" + bytes.fromhex("600039") + emit + bytes.fromhex("60016000f3")
    place = len(head) - len(b"%s") + 2
    return head.replace(b"%s", place.to_bytes(2, "big")) + log


@in_loop
async def test_node_whose_deployment_id_is_used_for_a_contract_that_logs_a_round_goes_on(tmp_path: Path) -> None:
    async with network(tmp_path, NODE1, NODE2) as net:
        await net.start(NODE1)
        # Its other member is away, so that it waits.
        waiting = await net.deploy(NODE1, "synthetic", {"members": [f"a@{NODE1}", f"b@{NODE2}"], "threshold": 2})
        call = deploy_proved(waiting, bytes(WORD_BYTES), ContractAddress(PAYER), _contract_that_logs_a_round(), b"")
        await send(net.client, {"to": net.factory, "data": data(call)})
        core = net.processes[NODE1].running.engine.core
        await net.until(lambda: any(block.outcomes for block in core.index.blocks))
        contract = await net.create([f"{ALICE}@{NODE1}"])
        assert (await net.final(NODE1, await net.submit(NODE1, contract, "spend"))).outcome is Outcome.CONFIRMED
        assert (await net.final(NODE1, waiting)).outcome is Outcome.REVERTED
