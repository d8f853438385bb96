"""Cores that are broken deliberately in their use of the base ledger and of connections; see `breaking.py`."""

from __future__ import annotations

from dataclasses import replace

from rota.chain import index
from rota.chain.effects import RoundDispatch, SignDispatch
from rota.chain.submitter import Submitter
from rota.model.blocks import ChainBlock, MinedStatus, MinedTransaction, Outcomes
from rota.model.types import IntentId, NodeName
from rota.sequencer.kept import Kept
from rota.sequencer.observer import Observer
from rota.sim.breaking import Canary, both, replacing, under
from rota.wire.messages import Envelope

_better_offer = Submitter._better_offer


def _better_offer_beside_the_first(submitter: Submitter, height: int) -> SignDispatch | None:
    offer = _better_offer(submitter, height)
    return offer and replace(offer, nonce=submitter.next_nonce)


def _send_once(submitter: Submitter, _now_ms: int) -> tuple[RoundDispatch, ...]:
    return tuple(each.dispatch for each in submitter.submissions.values() if not each.is_mined and not each.activity)


_failure = Submitter._failure


def _failure_unless_taken(submitter: Submitter, mined: MinedTransaction) -> Outcomes:
    return () if mined.status is MinedStatus.TAKEN else _failure(submitter, mined)


def _any_blocks(_blocks: tuple[ChainBlock, ...]) -> bool:
    return True


def _only_lost(observer: Observer, node: NodeName, connected: bool) -> None:
    if not connected:
        observer.peer(node).connected = False


def _take_only_from_connected(observer: Observer, node: NodeName, envelope: Envelope) -> bool:
    return observer.peer(node).connected and _hear(observer, node, envelope)


_hear = Observer.hear


def _is_left_at_once(kept: Kept, intent: IntentId) -> bool:
    return intent in kept._leaves_of_intent


LEDGER_CANARIES: tuple[Canary, ...] = (
    Canary(
        "offers more for gas under another nonce",
        "S10",
        replacing(Submitter, "_better_offer", _better_offer_beside_the_first),
        under("gas"),
    ),
    Canary(
        "sends no refused transaction again",
        "L1",
        replacing(Submitter, "to_be_sent_again", _send_once),
        under("refuse"),
    ),
    Canary(
        "does not notice that another process used its nonce",
        "L1",
        replacing(Submitter, "_failure", _failure_unless_taken),
        under("stranger"),
    ),
    Canary(
        "indexes blocks of two forks as one chain",
        "assertion",
        replacing(index, "_is_one_chain", _any_blocks),
        under("forks"),
    ),
    Canary(
        "does not notice that a peer is connected again",
        "L1",
        both(
            replacing(Observer, "connection_changed", _only_lost),
            replacing(Observer, Observer.hear.__name__, _take_only_from_connected),
        ),
        under("certificate"),
    ),
    Canary(
        "voids a prepared transition before its time has passed",
        "S5",
        replacing(Kept, "is_left", _is_left_at_once),
        under(),
    ),
)
