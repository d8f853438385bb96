"""The keys for the timers and limits of other packages.

Those packages have frozen dataclasses of whole numbers with their defaults: `Config` for the core, `TransportSettings`,
`ClientLimits`, `FollowerLimits` and the RPC's `Limits`. This module has the unit and the description of their fields
for operators; names and defaults come from there. The fields of `Config` about the chain are set in the section of the
ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Final, TypeAlias

from rota.model.config import MAY_BE_ZERO
from rota.server.configuring.keys import Key
from rota.server.configuring.kinds import Whole

# For each field, its unit and its description.
Meanings: TypeAlias = Mapping[str, tuple[str, str]]


def borrowed_keys(section: str, kind: type, meanings: Meanings) -> tuple[Key, ...]:
    """Return a key for each field that has a meaning, in the order of the meanings."""
    defaults = {field.name: field.default for field in fields(kind)}
    return tuple(
        Key(section, name, Whole(0 if name in MAY_BE_ZERO else 1), defaults[name], text, unit)
        for name, (unit, text) in meanings.items()
    )


# `rota.model.config.Config`, without its fields about the chain.
SEQUENCER: Final[Meanings] = {
    "heartbeat_ms": ("ms", "Between two heartbeats of a coordinator or submitter, and between two pings."),
    "heartbeat_grace": ("heartbeats", "How many may be missing before a node is silent; leases last one more."),
    "request_timeout_ms": ("ms", "A request is repeated after so long; an early request is held so long."),
    "assemble_timeout_ms": ("ms", "A sender that does not answer a slot by then loses its turn."),
    "state_timeout_ms": ("ms", "A transaction that waits in one state for so long is looked at again."),
    "delegation_repeat_ms": ("ms", "A delegation is repeated after so long; also the first delay after a rejection."),
    "delegation_timeout_ms": ("ms", "A delegate that has not answered by then is unavailable."),
    "delegation_backoff_max_ms": ("ms", "The longest delay between attempts to delegate."),
    "delegation_batch_max": ("intents", "Intents in one delegation."),
    "handover_timeout_ms": ("ms", "How long a new coordinator waits for the old one's answer."),
    "flush_timeout_ms": ("ms", "How long a new coordinator waits for what the old one had dispatched."),
    "submitter_grace_ms": ("ms", "How long a permitted intent is held after its submitter last listed it."),
    "id_used_grace_ms": ("ms", "How long members are asked whose leaf uses an intent's id on the chain."),
    "step_down_pause_ms": ("ms", "How long a node that stepped down does not choose itself."),
    "closing_heartbeats": ("heartbeats", "Heartbeats with which a coordinator takes its leave."),
    "idle_grace": ("heartbeats", "Heartbeats with nothing to do before a coordinator rests."),
    "validity_s": ("s of chain time", "How long an assembled transition, and so a round, may be committed."),
    "prepared_validity_s": ("s of chain time", "The same for a prepared transition."),
    "prepared_hold_s": (
        "s of chain time",
        "How long a prepared transition keeps its states from ordinary ones; then endorsers may void it for another.",
    ),
    "dependency_wait_s": (
        "s of chain time",
        "How long a transaction waits for another node's that `dependsOn` names without `validUntil`.",
    ),
    "in_flight_max": ("intents", "Intents held by one coordinator."),
    "held_bytes_max": ("bytes", "Transitions held by one coordinator, all together."),
    "deliveries_peer_max": ("deliveries", "Deliveries of private states to one peer in memory; others stay stored."),
    "deliveries_peer_bytes_max": ("bytes", "The same in bytes, by peer."),
    "deliveries_bytes_max": ("bytes", "The same in bytes, of all peers together."),
    "dispatch_ahead_max": ("rounds", "Rounds between opening and confirmation."),
    "sender_gas_max": (
        "gas",
        "What this node pays in an hour for one sender's transitions in a token that it coordinates; 0: no limit.",
    ),
    "assembly_slot_max": ("intents", "Intents in one slot of assembly."),
    "slot_ms_max": ("ms", "How long a slot may take: a sender that needs longer gets fewer intents."),
    "round_max": ("transitions", "Transitions in one round."),
    "intent_bytes_max": ("bytes", "An intent with its payload; a longer one is refused."),
    "transition_bytes_max": ("bytes", "A transition with all its states; a longer one reverts its intent."),
    "message_bytes_max": ("bytes", "A message to another node: what is longer goes in several, or waits."),
    "rounds_open_max": ("rounds", "Rounds that are being endorsed at a time."),
    "gather_max_ms": (
        "ms",
        "How long transitions wait at most for company in their round, while another round is under way; 0: not.",
    ),
    "apart_rounds_max": ("rounds", "Rounds of one sender's own that are under way, while it is on probation."),
    "permission_timeout_ms": ("ms", "A sender that has not permitted a transition by then is waited for no longer."),
    "probation_ms": ("ms", "How long a sender that cost others time shares no round with them, the first time."),
    "probation_max_ms": ("ms", "The same at most: each time it is twice as long."),
    "revert_retry_max": ("retries", "Retries of an intent of which a call failed on the ledger; 0: none."),
    "endorse_retry_max": ("retries", "Retries of an intent that endorsers refuse."),
    "retry_backoff_ms": ("ms", "The first delay of every other backoff."),
    "retry_backoff_max_ms": ("ms", "The longest delay of every other backoff."),
    "unavailable_ttl_ms": ("ms", "How long a node stays unavailable unheard, and a silent sender's intents are kept."),
    "progress_timeout_ms": ("ms", "How long a coordinator may bring none of our intents further before it is left."),
    "demotion_ms": (
        "ms",
        "How long a coordinator that was left is passed over the first time; each time twice as long.",
    ),
    "demotion_max_ms": ("ms", "How long it is passed over at most."),
    "history_max": ("states", "States of an intent, remembered to explain it."),
    "intents_open_max": (
        "intents",
        "Intents of this node's users that are not final; beyond them users are told to wait.",
    ),
    "sequencers_max": ("contracts", "Contracts in memory; only busy ones may be more."),
    "paging_queue_max": ("events", "Events that wait for contracts to be loaded."),
    "paging_bytes_max": ("bytes", "The same in bytes, of peers' messages; of one peer's a sixteenth."),
    "proposals_max": ("proposals", "Contracts that others want this node to have; of one node a quarter of them."),
    "proposals_bytes_max": ("bytes", "Size of all these together; of one node's a quarter."),
    "proposal_ttl_s": ("s of chain time", "How long a contract that is proposed and not deployed is remembered."),
}

# `rota.model.config.Config`, its fields about the chain.
SEQUENCER_ON_LEDGER: Final[Meanings] = {
    "index_from_height": ("height", "Where a new index begins: no contract of interest is older."),
    "index_window_max": (
        "blocks",
        "Blocks kept with what they did, so that they can be undone; more than `confirmations`.",
    ),
    "fetch_blocks_max": ("blocks", "Blocks asked for at once."),
    "ledger_grace_ms": ("ms", "An index that has not reached the chain for so long has lost it."),
    "stale_head_ms": ("ms", "Nothing but a shorter chain was seen for so long: it is believed."),
    "resubmit_ms": ("ms", "A transaction that is not mined is sent again after so long."),
    "reprice_blocks": ("blocks", "Blocks that may pass the next nonce by before it is signed for more."),
    "reprice_percent": ("%", "By how much more it is signed for then."),
    "tip_wei": ("wei", "What a transaction offers above the base fee, for a unit of gas."),
    "fee_max_wei": ("wei", "What a transaction offers at most, for a unit of gas."),
}

# `rota.ledger.follower.FollowerLimits`.
FOLLOWING: Final[Meanings] = {
    "poll_ms": ("ms", "Between two looks at the latest block; over a WebSocket the node tells of it besides."),
    "addresses_max": ("contracts", "Contracts named in one question for logs; with more, logs are told apart here."),
    "linked_blocks_max": ("blocks", "A range up to this is fetched with all its headers."),
    "headers_together_max": ("headers", "Headers asked for at a time."),
}

# `rota.ledger.client.ClientLimits`.
CLIENT: Final[Meanings] = {
    "timeout_ms": ("ms", "For one exchange with the Ethereum node."),
    "batch_max": ("requests", "Requests in one exchange; fewer when the node refuses."),
    "batch_bytes_max": ("bytes", "Size of what is asked in one exchange."),
    "answer_bytes_max": ("bytes", "Size of what is answered in one exchange."),
    "exchanges_max": ("exchanges", "Exchanges under way at a time."),
    "queue_max": ("requests", "Requests that wait; what is asked beyond them fails at once."),
    "backoff_ms": ("ms", "The first pause after a failed exchange, which doubles."),
    "backoff_max_ms": ("ms", "The longest pause."),
    "retry_after_max_ms": ("ms", "The longest pause that the Ethereum node may ask for."),
}

# `rota.server.settings.Limits`.
RPC: Final[Meanings] = {
    "body_bytes_max": ("bytes", "Size of one request over HTTP."),
    "bodies_bytes_max": ("bytes", "Size of all requests together that are being read or answered."),
    "answer_bytes_max": ("bytes", "Size of the answer to one message, a batch or a request."),
    "answers_bytes_max": ("bytes", "Size of all answers together that clients have not received yet."),
    "batch_entries_max": ("requests", "Requests in one batch."),
    "json_depth_max": ("levels", "Nesting of a request."),
    "json_tokens_max": ("tokens", "Texts, commas and brackets in the JSON of one message."),
    "call_tokens_max": ("tokens", "Texts, commas and brackets in the parameters of one call."),
    "connections_max": ("connections", "Connections of each listener."),
    "websockets_max": ("connections", "WebSockets among them."),
    "websocket_message_bytes_max": ("bytes", "Size of one message over a WebSocket."),
    "websocket_messages_max": ("messages", "Unanswered messages of one WebSocket; with as many it is not read from."),
    "websocket_subscriptions_max": ("subscriptions", "Subscriptions of one WebSocket."),
    "calls_max": ("calls", "Calls under way at a time."),
    "call_timeout_ms": ("ms", "How long one call may take."),
    "receive_timeout_ms": ("ms", "How long a client may take to say its request."),
    "send_timeout_ms": ("ms", "How long a client may take to hear its answer."),
    "idle_timeout_ms": ("ms", "How long a connection may say nothing."),
    "stop_timeout_ms": ("ms", "For answering what is under way when the node stops."),
    "predicted_wait_max_ms": (
        "ms",
        "How long a private transaction may be expected to wait for its end; one that would wait longer is refused.",
    ),
    "failed_attempts_max": ("attempts", "Wrong credentials of one address and user before further ones are delayed."),
    "failed_attempts_window_ms": ("ms", "In this time; then they are counted anew."),
    "failed_addresses_max": ("addresses", "Addresses whose wrong attempts are remembered."),
    "failed_delay_max_ms": ("ms", "The longest delay of an attempt; the first is 100 ms and it doubles."),
}

# `rota.transport.settings.TransportSettings`, without the heartbeat, which is the sequencer's, and the limits of a
# frame, which are the same for all nodes of a network.
TRANSPORT: Final[Meanings] = {
    "connect_timeout_ms": ("ms", "For each step of making a connection: a look at the certificate, TLS, the hello."),
    "backoff_ms": ("ms", "The pause before a peer is dialed again, which doubles."),
    "backoff_max_ms": ("ms", "The longest such pause."),
    "misuse_pause_ms": ("ms", "How long a peer that misbehaved is not heard."),
    "registry_look_ms": ("ms", "Between two looks at what is known of the registry."),
    "certificate_look_max_ms": ("ms", "The longest pause between two looks for a certificate that was announced."),
    "queue_messages_max": ("messages", "Messages that wait for one peer."),
    "queue_bytes_max": ("bytes", "Size of what waits for one peer."),
    "queue_age_max_ms": ("ms", "What has waited longer is dropped, as it was repeated meanwhile."),
    "frame_bytes_wanted": ("bytes", "Size at which a frame is closed; one message alone may be bigger."),
    "frames_per_s_max": ("frames a second", "Frames of one peer, on average."),
    "envelopes_per_s_max": ("messages a second", "Messages of one peer, on average; more slow it down."),
    "items_per_s_max": ("items a second", "List elements in messages of one peer, on average; more slow it down."),
    "reading_ms_per_s_max": (
        "ms a second",
        "Processor time for reading messages of one peer, on average; more slows it down. All peers together have "
        "half as much again.",
    ),
    "bytes_per_s_max": ("bytes a second", "What one peer may say, on average."),
    "burst_s": ("s", "A peer may say at once what it may say in this time."),
    "peers_max": ("nodes", "Nodes connected to; where more are registered, those that are spoken to come first."),
    "hellos_max": ("connections", "Connections of one peer that have not said hello yet."),
    "stop_timeout_ms": ("ms", "For saying what is queued when the node stops; then as long again for parting."),
}
