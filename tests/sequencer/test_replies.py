"""Every reply names what it answers, in its body and in its envelope, on every copy (protocol §6)."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from rota.machine.context import Ids
from rota.machine.effects import SendMessage
from rota.model.config import Config
from rota.model.types import RequestId
from rota.sequencer.context import Context
from rota.wire import messages
from rota.wire.messages import Message, Reply
from tests.sequencer.kit import A, B, contract
from tests.wire.samples import MESSAGE_TYPES, full_value

REPLIES: tuple[type[Reply], ...] = tuple(kind for kind in MESSAGE_TYPES if issubclass(kind, Reply))
OTHERS = tuple(kind for kind in MESSAGE_TYPES if not issubclass(kind, Reply))
QUESTIONS: dict[str, set[type[Message]]] = {
    "request_id": {
        messages.AssembleRequest,
        messages.EndorsementRequest,
        messages.DispatchConfirmationRequest,
        messages.HandoverRequest,
        messages.VerifierRequest,
        messages.DeploymentProposal,
        messages.ContractsRequest,
        messages.GenesisRequest,
        messages.HoldingsRequest,
    },
    "command_id": {messages.DelegationCommand},
    "startup_id": {messages.Startup},
}


def sent(body: Message) -> SendMessage:
    """What leaves when a machine says this."""
    context = Context(A, Ids(1), contract(), Config())
    context.send(B, body)
    [effect] = context.take_effects()
    assert isinstance(effect, SendMessage)
    return effect


@pytest.mark.parametrize("kind", REPLIES, ids=lambda kind: kind.__name__)
def test_envelope_of_a_reply_bears_the_id_of_what_it_answers(kind: type[Reply]) -> None:
    body = full_value(kind)
    for _ in range(2):
        assert sent(body).envelope.correlation_id == body.in_reply_to
    asked = RequestId(77, 88)
    assert sent(replace(body, **{kind.answered_id: asked})).envelope.correlation_id == asked


@pytest.mark.parametrize("kind", OTHERS, ids=lambda kind: kind.__name__)
def test_what_answers_nothing_names_nothing(kind: type[Message]) -> None:
    assert sent(full_value(kind)).envelope.correlation_id is None


def test_whatever_has_the_id_of_a_question_is_the_question_or_a_reply_to_it() -> None:
    for answered_id, questions in QUESTIONS.items():
        having = {kind for kind in MESSAGE_TYPES if answered_id in {field.name for field in fields(kind)}}  # type: ignore[arg-type]
        assert having - questions == {kind for kind in REPLIES if kind.answered_id == answered_id}
        assert questions <= having


def test_every_question_has_a_reply() -> None:
    assert {reply.__name__ for reply in REPLIES} == {
        "AssembleError",
        "AssembleResponse",
        "ContractsResponse",
        "DelegationAccepted",
        "DelegationRejected",
        "DeploymentAnswer",
        "DispatchConfirmationError",
        "DispatchConfirmationResponse",
        "EndorsementError",
        "EndorsementResponse",
        "GenesisResponse",
        "Handover",
        "HoldingsResponse",
        "StartupAcknowledgement",
        "VerifierResponse",
    }
