"""Every timer and limit of a node, with its default and its unit (protocol §9)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

MAY_BE_ZERO: Final = (
    "confirmations",
    "gather_max_ms",
    "index_from_height",
    "revert_retry_max",
    "sender_gas_max",
    "tip_wei",
)


@dataclass(frozen=True, slots=True)
class Config:
    """One node's timers and limits. All are positive but those of `MAY_BE_ZERO`; a wrong one is refused by name."""

    heartbeat_ms: int = 500
    heartbeat_grace: int = 2
    request_timeout_ms: int = 1_000
    assemble_timeout_ms: int = 2_000
    state_timeout_ms: int = 10_000
    delegation_repeat_ms: int = 250
    delegation_timeout_ms: int = 1_000
    delegation_backoff_max_ms: int = 2_000
    delegation_batch_max: int = 256
    handover_timeout_ms: int = 3_000
    flush_timeout_ms: int = 30_000
    submitter_grace_ms: int = 4_000
    id_used_grace_ms: int = 30_000
    resubmit_ms: int = 5_000
    reprice_blocks: int = 3
    reprice_percent: int = 25
    tip_wei: int = 1_000_000_000
    fee_max_wei: int = 500_000_000_000
    ledger_grace_ms: int = 5_000
    stale_head_ms: int = 2_000
    confirmations: int = 0
    index_from_height: int = 0
    index_window_max: int = 256
    fetch_blocks_max: int = 500
    step_down_pause_ms: int = 10_000
    closing_heartbeats: int = 6
    idle_grace: int = 6
    validity_s: int = 600
    prepared_validity_s: int = 900
    prepared_hold_s: int = 300
    dependency_wait_s: int = 3_600
    in_flight_max: int = 5_000
    held_bytes_max: int = 67_108_864
    deliveries_peer_max: int = 64
    deliveries_peer_bytes_max: int = 4_194_304
    deliveries_bytes_max: int = 67_108_864
    dispatch_ahead_max: int = 16
    sender_gas_max: int = 0
    assembly_slot_max: int = 64
    slot_ms_max: int = 500
    round_max: int = 64
    rounds_open_max: int = 2
    gather_max_ms: int = 1_000
    apart_rounds_max: int = 2
    permission_timeout_ms: int = 4_000
    probation_ms: int = 10_000
    probation_max_ms: int = 600_000
    revert_retry_max: int = 3
    endorse_retry_max: int = 5
    retry_backoff_ms: int = 250
    retry_backoff_max_ms: int = 10_000
    unavailable_ttl_ms: int = 60_000
    progress_timeout_ms: int = 40_000
    demotion_ms: int = 60_000
    demotion_max_ms: int = 3_600_000
    history_max: int = 64
    intent_bytes_max: int = 1_048_576
    transition_bytes_max: int = 1_048_576
    message_bytes_max: int = 3_145_728
    intents_open_max: int = 50_000
    sequencers_max: int = 10_000
    paging_queue_max: int = 1_000
    paging_bytes_max: int = 67_108_864
    proposals_max: int = 1_024
    proposals_bytes_max: int = 67_108_864
    proposal_ttl_s: int = 604_800

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name in MAY_BE_ZERO else 1
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(f"{field.name}: must be a whole number of at least {least}, not {value!r}")
        if self.index_window_max <= self.confirmations:
            raise ValueError(f"index_window_max: must be greater than confirmations, which is {self.confirmations}")

        if self.message_bytes_max < self.intent_bytes_max:
            raise ValueError(f"message_bytes_max: must be at least intent_bytes_max, which is {self.intent_bytes_max}")
        if self.message_bytes_max < 2 * self.transition_bytes_max:
            least = 2 * self.transition_bytes_max
            raise ValueError(f"message_bytes_max: must be at least twice transition_bytes_max, which makes {least}")

    @property
    def round_bytes_max(self) -> int:
        """The size limit of a round's members together: each message about it has room for one transition more."""
        return self.message_bytes_max - self.transition_bytes_max

    @property
    def silence_ms(self) -> int:
        """The time without messages after which more than `heartbeat_grace` heartbeats of a coordinator are missing."""
        return (self.heartbeat_grace + 1) * self.heartbeat_ms

    @property
    def overdue_ms(self) -> int:
        """The time at which the next heartbeat is overdue: one and a half intervals after the last (protocol §4.3)."""
        return self.heartbeat_ms * 3 // 2
