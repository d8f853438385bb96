"""Permission: each sender of an endorsed round permits its own leaves in it (protocol §7).

Theory of operation. A sender is asked once for all its intents in a round. The request is repeated until it is
answered, and only the answer to the current request counts. A sender that does not answer within `permission_timeout`
delays others no longer: its endorsed transitions without permission, in any round, leave as bare leaves, with
their dependents, and are assembled again; the sender is on probation (`probation.py`), and so is one that takes more
than half of that time. The signatures of a round hold for its bare leaves too, so that one may still be committed until
it expires. The new version is skipped then, which is contention and is not counted against the intent.
"""

from __future__ import annotations

from dataclasses import dataclass

from rota.machine.tables import Event
from rota.model.types import IntentId, NodeName, RequestId
from rota.sequencer.coordinator_owner import OwningCoordinator
from rota.sequencer.coordinator_transaction_events import DispatchConfirmationRejected, DispatchConfirmed
from rota.sequencer.events import PermissionRepeatDue
from rota.sequencer.held_intent import HeldIntent, Round
from rota.wire.messages import (
    DispatchConfirmationError,
    DispatchConfirmationRequest,
    DispatchConfirmationResponse,
    DispatchItem,
)


@dataclass(slots=True)
class Permission:
    """One permission request under way: its sender, round and intents."""

    request_id: RequestId
    sender: NodeName
    round: Round
    intents: dict[IntentId, None]


class Permissions:
    """The permission requests of one coordinator to the senders of its rounds."""

    def __init__(self, coordinator: OwningCoordinator) -> None:
        self.coordinator = coordinator
        self.context = coordinator.context
        self.to_confirm: list[HeldIntent] = []
        self.open: dict[RequestId, Permission] = {}

    def handle(self, event: Event) -> None:
        """Repeat an unanswered request."""
        assert isinstance(event, PermissionRepeatDue), "the permissions know their timers"
        permission = self.open[event.request_id]
        if self._waited_ms(permission) >= self.context.config.permission_timeout_ms:
            self.coordinator.isolate(permission.sender, withholds=True)
        else:
            self._send(permission, again=True)
        self.coordinator.something_changed()

    def await_answer(self, transaction: HeldIntent) -> None:
        """Queue an endorsed transaction whose dependencies are ready."""
        self.to_confirm.append(transaction)

    def ask_with_states(self, transaction: HeldIntent) -> None:
        """Include the states in the next request, as the sender lost them in a restart."""
        transaction.sends_states = True
        self.to_confirm.append(transaction)
        self.coordinator.something_changed()

    def take(self, peer: NodeName, response: DispatchConfirmationResponse) -> None:
        """Take permission for the leaves in the current request."""
        permission = self._asked(peer, response.request_id)
        if permission is None:
            return
        is_late = self._is_late(permission)
        for intent in response.intents:
            if intent in permission.intents:
                self._close(permission, intent)
                permission.round.members[intent].handle(DispatchConfirmed())
                self.coordinator.probation.note_permitted(peer)
        if is_late:
            self.coordinator.isolate(peer, withholds=True)

    def take_error(self, peer: NodeName, error: DispatchConfirmationError) -> None:
        """Take a refusal: those leaves leave, with their dependents."""
        permission = self._asked(peer, error.request_id)
        if permission is None:
            return
        is_late = self._is_late(permission)
        for failed in error.errors:
            if failed.intent in permission.intents:
                self._close(permission, failed.intent)
                transaction = permission.round.members[failed.intent]
                transaction.handle(DispatchConfirmationRejected(failed.code))
                if transaction.is_gone and (self.coordinator.probation.is_too_much(peer) or is_late):
                    self.coordinator.isolate(peer, withholds=is_late)

    def ask(self) -> None:
        """Send one request for all intents of one sender in one round."""
        groups: dict[tuple[int, NodeName], Permission] = {}
        for transaction in self.to_confirm:
            assert transaction.round is not None, "what is confirmed has a round"
            key = (transaction.round.number, transaction.sender)
            if key not in groups:
                request_id = self.context.next_id()
                groups[key] = Permission(request_id, transaction.sender, transaction.round, {})
            groups[key].intents[transaction.intent.id] = None
        self.to_confirm.clear()
        for permission in groups.values():
            self.open[permission.request_id] = permission
            self._send(permission)

    def forget(self, transaction: HeldIntent, opened: Round | None) -> None:
        """Remove it from the requests: it leaves its round, or has its outcome."""
        if transaction in self.to_confirm:
            self.to_confirm.remove(transaction)
        for permission in tuple(self.open.values()) if opened is not None else ():
            if permission.round is opened and transaction.intent.id in permission.intents:
                self._close(permission, transaction.intent.id)

    def _send(self, permission: Permission, again: bool = False) -> None:
        members = [permission.round.members[intent] for intent in permission.intents]
        items = tuple(_dispatch_item(member) for member in members)
        request = DispatchConfirmationRequest(permission.request_id, permission.round.digest, items)
        self.context.send(permission.sender, request)
        if again:
            self.coordinator.tell_asked_again(permission.intents)
        config = self.context.config
        left_ms = max(1, config.permission_timeout_ms - self._waited_ms(permission))
        due_ms = self.context.after(min(config.request_timeout_ms, left_ms))
        request_id = permission.request_id
        self.context.timers.set(self, f"permission {request_id}", due_ms, PermissionRepeatDue(request_id))

    def _waited_ms(self, permission: Permission) -> int:
        """Return how long the sender has known the items; asking for the states gives it no more time."""
        since_ms = min(permission.round.members[intent].since_ms for intent in permission.intents)
        return self.context.now_ms - since_ms

    def _is_late(self, permission: Permission) -> bool:
        """Whether its sender took more than half of its time."""
        return self._waited_ms(permission) * 2 >= self.context.config.permission_timeout_ms

    def _asked(self, peer: NodeName, request_id: RequestId) -> Permission | None:
        permission = self.open.get(request_id)
        return permission if permission is not None and permission.sender == peer else None

    def _close(self, permission: Permission, intent: IntentId) -> None:
        del permission.intents[intent]
        if not permission.intents:
            del self.open[permission.request_id]
            self.context.timers.cancel(self, f"permission {permission.request_id}")


def _dispatch_item(member: HeldIntent) -> DispatchItem:
    transition = member.made
    return DispatchItem(
        member.intent.id,
        member.number,
        transition.leaf,
        transition.signature,
        transition.valid_until_s,
        transition if member.sends_states else None,
    )
