"""What operators see: alive, ready, figures."""

import json
import re

from prometheus_client.parser import text_string_to_metric_families

from rota.server.settings import Settings
from tests.server.kit import LOCAL, TRANSFER, asynchronous, served
from tests.server.memory_node import MemoryNode

FIGURES = {
    "rota_rpc_calls": ("counter", "JSON-RPC calls by method and outcome"),
    "rota_rpc_call_seconds": ("histogram", "How long JSON-RPC calls took, from the request's decoding to its answer"),
    "rota_rpc_refused": ("counter", "Requests and connections that were refused before a call was read"),
    "rota_rpc_connections": ("gauge", "Open connections by listener"),
    "rota_loop_hold_longest_seconds": (
        "gauge",
        "The longest time for which the event loop was held in the last minute, in processor time",
    ),
    "rota_loop_holds": ("counter", "Times that the event loop was held for more than 50 ms of processor time"),
    "rota_ready": ("gauge", "1 when nothing that the node needs is missing"),
    "rota_index_height": ("gauge", "The block that this node's own index has reached"),
    "rota_ledger_height": ("gauge", "The newest block that the ledger has reported"),
    "rota_ledger_lost": ("gauge", "1 while the index has not reached the ledger for ledger_grace"),
    "rota_contracts": ("gauge", "Contracts of this node"),
    "rota_contracts_in_arrears": ("gauge", "Contracts of which this node makes up for what it missed"),
    "rota_contracts_loaded": ("gauge", "Contracts whose sequencers are in memory"),
    "rota_coordinators_active": ("gauge", "Contracts that this node is the active coordinator of"),
    "rota_intents_open": ("gauge", "Transactions of this node's users that are not final"),
    "rota_rounds_unconfirmed": ("gauge", "Dispatched rounds without an outcome on the ledger"),
    "rota_deliveries_open": ("gauge", "Deliveries of private states in memory that are not acknowledged"),
    "rota_certificate_valid_until_seconds": (
        "gauge",
        "When the certificate that peers are shown ends, in seconds since 1970",
    ),
    "rota_store_writes_open": ("gauge", "Writes that were ordered and are not durable yet"),
    "rota_public_set_aside": (
        "gauge",
        "Public transactions that wait for an operator because the database was wound back",
    ),
    "rota_consents_pending": (
        "gauge",
        "Contracts that name this node as endorser or coordinator and wait for its operator",
    ),
    "rota_accounts_short": ("gauge", "Submitting accounts that cannot pay for their next round"),
    "rota_commands_in_flight": ("gauge", "Commands whose outcome is not known yet"),
    "rota_completions_end": ("gauge", "The offset of the latest completion"),
    "rota_intents_accepted": ("counter", "Transactions accepted from users"),
    "rota_receipts_confirmed": ("counter", "Transactions that ended confirmed"),
    "rota_receipts_reverted": ("counter", "Transactions that ended reverted"),
    "rota_intent_ids_used": (
        "counter",
        "Transactions that ended because another transition used their id on the chain",
    ),
    "rota_finality_broken": ("counter", "Times that the chain took back blocks that were final"),
    "rota_receipts_undone": (
        "gauge",
        "Receipts that no longer hold, because the chain took back final blocks, and that nobody has acknowledged",
    ),
    "rota_rounds_dispatched": ("counter", "Rounds that became base-ledger transactions"),
    "rota_submissions": ("counter", "Base-ledger transactions sent, repetitions included"),
    "rota_store_writes_failed": ("counter", "Writes that failed"),
    "rota_contracts_learned": ("counter", "Contracts that this node has learned of from a peer"),
    "rota_contracts_refused": ("counter", "Contracts of peers that this node did not take in"),
    "rota_geneses_asked": ("counter", "How often a peer was asked what a contract is"),
    "rota_geneses_given": ("counter", "How often a peer got the genesis of a contract"),
    "rota_states_unconfirmed": ("gauge", "Transitions that peers sent and that no block has"),
    "rota_states_refused": (
        "counter",
        "Messages with private states that were not taken because their author's quota was used up",
    ),
    "rota_verifier_requests_dropped": ("counter", "Requests of peers for verifiers beyond their allowance"),
    "rota_messages_dropped": (
        "counter",
        "Messages of peers that were dropped because too many of the same peer, or of all, waited for the core",
    ),
    "rota_code_over_budget": (
        "counter",
        "Rounds, and transitions of rounds, that were not judged because private code was over a budget",
    ),
    "rota_code_processes_ended": ("counter", "Processes that run private code and ended in the middle of a request"),
    "rota_core_steps": ("counter", "Events that the core has handled"),
    "rota_commands_accepted": ("counter", "Commands that happened"),
    "rota_commands_rejected": ("counter", "Commands that did not happen, duplicates not among them"),
    "rota_commands_duplicate": ("counter", "Submissions refused as duplicates or as in flight"),
    "rota_automation_transactions": ("counter", "Transactions of this node's triggers, mined"),
    "rota_automation_ledger_share": (
        "gauge",
        "The part of the ledger's transactions since the start that were of this node's triggers",
    ),
    "rota_ledger_transactions": ("counter", "All transactions in the blocks of that time"),
    "rota_trigger_attempted": ("counter", "Tasks that were attempted, by how that ended"),
    "splice_trigger_attempted": ("counter", "Tasks that were attempted, by how that ended"),
    "rota_trigger_skipped": ("counter", "Tasks that were done before this node began them"),
    "rota_trigger_paused": ("gauge", "1 while a trigger is paused"),
    "rota_trigger_waiting": ("gauge", "Tasks that wait for their time"),
    "rota_trigger_at_work": ("gauge", "Attempts that are under way"),
    "rota_trigger_set_aside": ("gauge", "Tasks that were refused too often and are left alone"),
    "rota_trigger_breaker_open": ("gauge", "1 while a trigger rests because it failed as such"),
    "rota_trigger_duration_seconds": ("histogram", "How long attempts took, from the order to the ledger's word"),
    "rota_trigger_wait_seconds": ("histogram", "How long attempts waited, from the time a task was ready and seen"),
    "rota_sending": ("gauge", "Transactions of this node's users, by state"),
    "rota_coordinating": ("gauge", "Transactions that this node coordinates, by state"),
    "rota_peer_connected": ("gauge", "1 while the connection carries both ways"),
    "rota_peer_queued_messages": ("gauge", "Messages that wait to be sent to a peer"),
    "rota_peer_dropped_messages": ("counter", "Messages dropped because a peer's queue was full"),
}
"""Names and texts are an interface: dashboards and alarms are made of them."""


@asynchronous
async def test_figures_have_these_names_and_texts() -> None:
    async with served(MemoryNode(knows_all=True)) as to:
        await to.call("transport_nodeName")
        status, text = await to.get("/metrics")
    assert status == 200
    shown = {family.name: (family.type, family.documentation) for family in text_string_to_metric_families(text)}
    created = {name for name in shown if name.endswith("_created")}
    assert {name: told for name, told in shown.items() if name not in created} == FIGURES


@asynchronous
async def test_figures_are_those_of_the_moment() -> None:
    async with served() as to:
        await to.call("ptx_sendTransaction", TRANSFER)
        await to.call("ptx_sendTransaction", {**TRANSFER, "type": "x"})
        await to.call("invented_1")
        await to.call("invented_2")
        figures = samples((await to.get("/metrics"))[1])
    assert figures['rota_rpc_calls_total{method="ptx_sendTransaction",outcome="ok"}'] == 1
    assert figures['rota_rpc_calls_total{method="ptx_sendTransaction",outcome="invalid_parameters"}'] == 1
    # A client cannot make series by inventing names.
    assert figures['rota_rpc_calls_total{method="unknown",outcome="unknown_method"}'] == 2
    assert figures["rota_intents_open"] == 1
    assert figures["rota_intents_accepted_total"] == 1
    assert figures['rota_sending{state="Pending"}'] == 1
    assert figures['rota_peer_connected{peer="node2"}'] == 1
    assert figures['rota_peer_queued_messages{peer="node2"}'] == 3
    assert figures['rota_peer_dropped_messages_total{peer="node2"}'] == 1
    assert figures['rota_rpc_connections{listener="http"}'] >= 1
    assert figures["rota_ready"] == 1


@asynchronous
async def test_what_the_node_does_not_know_is_not_shown() -> None:
    async with served() as to:
        figures = samples((await to.get("/metrics"))[1])
    assert figures["rota_index_height"] == 250
    assert "rota_ledger_height" not in figures


@asynchronous
async def test_a_live_node_says_so() -> None:
    async with served(MemoryNode(missing=("everything",))) as to:
        status, text = await to.get("/livez")
    assert (status, json.loads(text)) == (200, {"node": "node1", "live": True})


@asynchronous
async def test_a_node_that_is_not_ready_says_what_is_missing() -> None:
    async with served() as to:
        served_well = {"node": "node1", "ready": True, "missing": [], "warnings": []}
        assert await ready(to.get) == (200, served_well)
        to.node.warned = ("the certificate ends in 6 days",)
        assert await ready(to.get) == (200, {**served_well, "warnings": list(to.node.warned)})
        to.node.missing, to.node.warned = ("the ledger is not reached: is it running?", "the store is opening"), ()
        assert await ready(to.get) == (503, {**served_well, "ready": False, "missing": list(to.node.missing)})
        assert samples((await to.get("/metrics"))[1])["rota_ready"] == 0


@asynchronous
async def test_operators_may_have_a_port_of_their_own() -> None:
    async with served(settings=Settings(http=LOCAL, websocket=LOCAL, operations=LOCAL)) as to:
        assert to.entrance.operations_url != to.entrance.http_url
        for path in ("/livez", "/readyz", "/metrics"):
            assert (await to.get(path))[0] == 200
            async with to.session.get(to.entrance.http_url + path) as answer:
                assert answer.status == 404
        async with to.session.post(to.entrance.operations_url, data=b"{}") as answer:
            assert answer.status == 404


async def ready(get: object) -> tuple[int, object]:
    status, text = await get("/readyz")  # type: ignore[operator]  # what Served.get is
    return status, json.loads(text)


def samples(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {re.sub(" .*", "", line): float(line.rpartition(" ")[2]) for line in lines}


@asynchronous
async def test_host_that_a_page_may_have_taken_reads_no_figures_and_no_details() -> None:
    node = MemoryNode()
    async with served(node) as to:
        for host in ("127.0.0.1:1", "localhost", "[::1]:5"):
            assert (await to.get("/metrics", Host=host))[0] == 200
            assert "missing" in json.loads((await to.get("/readyz", Host=host))[1])
        for host in ("evil.example", "evil.example:31548", "127.0.0.1.evil.example"):
            assert (await to.get("/metrics", Host=host))[0] == 403
            assert json.loads((await to.get("/readyz", Host=host))[1]) == {"ready": True}


@asynchronous
async def test_readiness_names_files_without_their_folders() -> None:
    class Troubled(MemoryNode):
        def readiness(self) -> tuple[str, ...]:
            return (
                "the store is away: /var/lib/rota/alice/rota.db: disk full",
                "http://127.0.0.1:8545/v1/key: no answer",
            )

    async with served(Troubled()) as to:
        assert json.loads((await to.get("/readyz"))[1])["missing"] == [
            "the store is away: rota.db: disk full",
            "http://127.0.0.1:8545/v1/key: no answer",
        ]
