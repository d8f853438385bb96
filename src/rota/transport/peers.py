"""All other nodes, over gRPC with mutual TLS (protocol §4.1, §6).

Every node dials every registered node that it is not connected to, and accepts their connections: the first one counts.
When two connections cross, the one that the node with the lesser name dialed stays; both sides can tell, and no event
is raised, since the peer was reachable all the time. A peer that restarted dials again while this node holds a
connection that leads nowhere: its hello shows another incarnation, the old connection counts as lost, and the core gets
that event.

A peer cannot hold up others. It has its own queue, its own tasks, its own allowance; if it sends too much or malformed
frames, its own connection ends, and the node ignores it for a while.
or wrongly ends its own connection, and then it is not heard for a while.

A certificate is exchanged without a restart: announce it in the registry, call `use`, and drop the old one from the
registry once every peer is renewed. From `use` on each new handshake shows the new one, and each peer is dialed once
beside the present connection, which ends when the new one is up. Peers learn an announced certificate by looking for
it, at the latest when a node that TLS does not know connects to them.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from rota.logs import catalogue
from rota.logs.trouble import PeerLines
from rota.machine.effects import SendMessage
from rota.machine.events import ConnectionLost, ConnectionMade, MessageReceived
from rota.model.types import NodeName
from rota.ports import Registration, Registry, Tell, Unavailable
from rota.transport.allowance import reading_of_all
from rota.transport.certificates import (
    Certificate,
    Identity,
    KnownCertificates,
    WallClock,
    look_at_certificate,
    utc_now,
)
from rota.transport.dialing import DialedStream
from rota.transport.endings import SUPERSEDED, Ending, Endings, Reason, Refused, refused
from rota.transport.endpoints import require_dialable
from rota.transport.handshake import identify, read_hello, registration_flaw, shown_fingerprint
from rota.transport.host_addresses import HostAddresses
from rota.transport.link import PARTING_MS, Link, Stream
from rota.transport.parts import LIFE_BYTES, Announcement, Hello, goodbye_bytes, hello_bytes
from rota.transport.peer_state import PeerState, PeerStatus
from rota.transport.serving import AcceptedStream, Server
from rota.transport.settings import TransportSettings
from rota.wire.messages import Envelope

DRAIN_LOOK_S: Final = 0.01

# Nodes that get a place when a peer with an unknown certificate connects.
TURNS_AT_A_KNOCK: Final = 8


class GrpcPeers:
    """`ports.Peers` for the nodes of the registry; `tell` is called in the event loop, never within `send`."""

    def __init__(
        self,
        name: NodeName,
        identity: Identity,
        registry: Registry,
        tell: Tell,
        *,
        listen: str,
        settings: TransportSettings | None = None,
        wall_clock: WallClock = utc_now,
        announcement: Announcement | None = None,
        allows_local: bool = True,
    ) -> None:
        identity.certificate  # noqa: B018  # A certificate that TLS cannot use is refused here and not at a handshake.
        self.name: Final = name
        self.endings: Final = Endings()
        self.started: Final = asyncio.Event()
        # Whether many messages of a peer wait for the core; then no more of them are read for a while.
        self.is_behind: Callable[[NodeName], bool] = lambda _: False
        self.handshakes_begun = 0
        self.connections_identified = 0
        self.dropped_unknown_peer = 0
        self._identity = identity
        self._announcement: Final = announcement or Announcement()
        self._allows_local: Final = allows_local
        # The last turn, where not all registered nodes have room.
        self._turn = 0
        self._generation = 0
        self._registry: Final = registry
        self._tell: Final = tell
        self._settings: Final = settings or TransportSettings()
        self._reading: Final = reading_of_all(self._settings)
        self._wall_clock: Final = wall_clock
        self._life: Final = secrets.token_bytes(LIFE_BYTES)
        self._known: Final = KnownCertificates()
        self._hosts: Final = HostAddresses()
        self._states: Final[dict[NodeName, PeerState]] = {}
        self._links: Final[set[asyncio.Task[None]]] = set()
        self._is_stopping = False
        self._is_look_due = False
        self._unsent_lines: Final = PeerLines()
        self._server: Final = Server(listen, self._settings, identity, self._accept, self._knocked)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._group: asyncio.TaskGroup | None = None

    # Called by the running node.

    async def run(self) -> None:
        """Keep connections until cancelled; `Unavailable` when it cannot listen."""
        self._loop = asyncio.get_running_loop()
        await self._server.start()
        try:
            async with asyncio.TaskGroup() as self._group:
                tending = self._group.create_task(self._tend())
                self.started.set()
                try:
                    await asyncio.shield(tending)
                finally:
                    await self._drain()
        finally:
            await self._server.stop(0)

    def send(self, order: SendMessage) -> None:
        """Send a message to a peer; for one that is not registered it is dropped."""
        assert order.peer != self.name, "a node talks to itself without a wire (protocol §7)"
        state = self._state_of(order.peer, is_wanted=True)
        if state is None:
            self.dropped_unknown_peer += 1
            return
        state.is_wanted = True
        if flaw := state.outbox.put(self._now_ms(), order.envelope):
            if self._unsent_lines.is_due(order.peer):
                message_type = type(order.envelope.body).__name__
                catalogue.PEER_MESSAGE_NOT_SENT.log(peer=order.peer, message_type=message_type, reason=flaw)
        elif state.link is not None:
            state.link.wake()

    def troubles(self) -> Mapping[NodeName, str]:
        """Why there is no connection, for each node without one."""
        return {name: state.trouble for name, state in self._states.items() if state.is_told_up is not True}

    def status(self) -> tuple[PeerStatus, ...]:
        """All peers, as an operator sees them."""
        return tuple(state.status() for state in self._states.values())

    def announcements(self) -> Mapping[NodeName, Announcement]:
        """The automation part of each peer that was connected since this process started, also while it is away."""
        return {name: state.announced for name, state in self._states.items() if state.announced is not None}

    @property
    def port(self) -> int:
        """The port that it listens on, once started."""
        return self._server.port

    def use(self, identity: Identity) -> None:
        """Show this certificate from now on; it must have been announced. Every connection is renewed with it."""
        identity.certificate  # noqa: B018  # As above.
        self._identity = identity
        self._generation += 1
        self._trust()
        for state in self._states.values():
            state.wake()

    @property
    def shown_fingerprint(self) -> bytes:
        """Of the certificate that new connections show."""
        return self._identity.certificate.fingerprint

    def is_renewed(self) -> bool:
        """Whether every connection shows our current certificate, so that the old one can be dropped."""
        return all(self._is_renewed(state) for state in self._states.values())

    def _is_renewed(self, state: PeerState) -> bool:
        """A peer that is away sees the new one when it comes back; one that is about to settle may not."""
        if state.link is None:
            return state.greeting is None and state.is_told_up is not True
        return state.greeting is None and state.link.generation == self._generation

    # Registered nodes.

    async def _tend(self) -> None:
        """Follow the registry."""
        while True:
            registrations = self._registry.registrations()
            for name in registrations:
                is_known = name in self._states or len(self._states) < self._settings.peers_max
                if name != self.name and is_known and (state := self._state_of(name)) is not None:
                    self._tend_peer(state, registrations[name])
            for name in self._states.keys() - registrations.keys():
                self._forget(self._states.pop(name), Ending(Reason.STRANGER, "it is registered no longer"))
            self._take_turns(1)
            if self._known.keep(each for found in registrations.values() for each in found.fingerprints):
                self._trust()
            await asyncio.sleep(self._settings.registry_look_ms / 1_000)

    def _state_of(self, name: NodeName, *, is_wanted: bool = False) -> PeerState | None:
        """Of a registered node, however new. One that has messages before we listen is dialed when we do.

        Registering many names takes no place of a node that we communicate with: see `_make_room`.
        """
        state = self._states.get(name)
        if state is None:
            if self._loop is None or name not in self._registry.registrations():
                return None
            if len(self._states) >= self._settings.peers_max and not self._make_room(is_wanted):
                return None
            state = self._states[name] = PeerState(name, self._settings, self._loop.time(), self._reading)
        if state.dialing is None and self._group is not None and not self._is_stopping:
            state.dialing = self._group.create_task(self._keep_connected(state))
        return state

    def _make_room(self, is_wanted: bool) -> bool:
        """Give up a node without messages that is not connected; for a wanted node, any node without messages."""
        strangers = [each for each in self._states.values() if not each.is_wanted]
        given_up = next((each for each in strangers if each.link is None), None)
        if given_up is None and is_wanted and strangers:
            given_up = strangers[0]
        if given_up is None:
            return False
        del self._states[given_up.name]
        self._forget(given_up, Ending(Reason.BUSY, f"{self.name} has no room for it"))
        return True

    def _take_turns(self, count: int) -> None:
        """Where more nodes are registered than there is room for, unanswering ones make room for the others."""
        waiting = [each for each in self._registry.registrations() if each not in self._states and each != self.name]
        if len(self._states) < self._settings.peers_max or not waiting:
            return
        failing = [each for each in self._states.values() if each.is_failing and not each.is_wanted]
        for given_up in failing[: min(count, len(waiting))]:
            self._turn += 1
            del self._states[given_up.name]
            self._forget(given_up, Ending(Reason.BUSY, f"{self.name} has no room for it"))
            _ = self._state_of(waiting[self._turn % len(waiting)])

    def _tend_peer(self, state: PeerState, registration: Registration) -> None:
        now_s = self._now_s()
        if state.is_told_up is None and now_s - state.since_s >= self._settings.silence_ms / 1_000:
            # For the core a node is connected until it learns otherwise.
            self._tell_lost(state, Ending(Reason.UNREACHABLE, state.trouble))
        is_unknown = any(self._known.get(each) is None for each in registration.fingerprints)
        if is_unknown and state.link is not None and self._group is not None and state.may_look(now_s):
            state.looking = self._group.create_task(self._look_in_passing(state, registration))

    def _forget(self, state: PeerState, ending: Ending) -> None:
        """It is no longer registered, or there is no room for it."""
        if state.link is not None:
            state.link.end(ending)
        self._tell_lost(state, ending)
        for task in (state.dialing, state.looking):
            if task is not None:
                task.cancel()

    # Dialing.

    async def _keep_connected(self, state: PeerState) -> None:
        while True:
            if not self._is_dial_due(state):
                await state.wait_for_change()
            elif await state.wait_for_turn(self._now_s()) and self._is_dial_due(state):
                try:
                    await self._dial(state)
                except Refused as refusal:
                    self._note_failure(state, refusal.ending)
                except Unavailable as error:
                    self._note_failure(state, Ending(Reason.UNREACHABLE, str(error)))

    def _is_dial_due(self, state: PeerState) -> bool:
        if self._is_stopping:
            return False
        return state.link is None or (state.link.is_up and state.link.generation != self._generation)

    def _note_failure(self, state: PeerState, ending: Ending) -> None:
        state.seen_fingerprint = b""
        self.endings.note(state.name, ending)
        if self._is_dial_due(state) and not state.is_paused(self._now_s()):
            # Otherwise it has dialed us meanwhile and is connected, or has misbehaved, which is the better reason.
            state.failed(self._now_s(), ending)

    async def _dial(self, state: PeerState) -> None:
        registration = self._registry.registrations().get(state.name)
        if registration is None:
            raise Unavailable("it is registered no longer")
        # The place where it was last: a node with a standby is at one of several.
        *others, last = sorted(registration.places, key=lambda place: place.endpoint != state.place)
        for place in others:
            with suppress(Unavailable):
                await self._dial_at(state, place)
                return
        await self._dial_at(state, last)

    async def _dial_at(self, state: PeerState, registration: Registration) -> None:
        await self._require_dialable(state.name, registration)
        identity, generation, replaced = self._identity, self._generation, state.link
        certificate = await self._certificate_of(state, registration)
        stream = DialedStream(registration.endpoint, certificate, identity, self._settings)
        try:
            async with asyncio.timeout(self._settings.connect_timeout_ms / 1_000):
                await stream.connect()
                if state.link is not replaced:
                    raise refused(Reason.CROSSED, "it has dialed us meanwhile")
                theirs = await self._greet(state, stream, certificate, is_renewal=replaced is not None)
            link = self._link(state, stream, certificate, theirs, generation=generation, is_dialed=True)
            self._settle(state, link, replaced)
            state.place = registration.endpoint
        except TimeoutError as error:
            await stream.close()
            raise Unavailable("it does not say hello") from error
        except Refused as refusal:
            await _part(stream, refusal.ending)
            raise
        except BaseException:
            await stream.close()
            raise
        finally:
            if state.greeting is not None:
                state.greeting.set_result(None)
                state.greeting = None
        _ = self._start(link)

    async def _greet(self, state: PeerState, stream: Stream, shown: Certificate, *, is_renewal: bool) -> Hello:
        """Exchange hellos; a connection that the peer dialed waits where ours would stay (`_await_settled`)."""
        state.greeting = asyncio.get_running_loop().create_future()
        ours = Hello(
            self.name,
            state.name,
            self._life,
            is_renewal,
            shown_fingerprint=shown.fingerprint,
            announcement=self._announcement,
        )
        await stream.write(hello_bytes(ours))
        return read_hello(await stream.read(), self.name, state.name)

    async def _certificate_of(self, state: PeerState, registration: Registration) -> Certificate:
        """The one that it was last seen with. After any failure the node looks again: it may show another by now."""
        seen = self._known.get(state.seen_fingerprint)
        if seen is None or registration_flaw(seen, registration, self._wall_clock()) is not None:
            return await self._look(state, registration)
        return seen

    async def _require_dialable(self, name: NodeName, registration: Registration) -> None:
        own = self._registry.registrations().get(self.name)
        own_places = [place.endpoint for place in own.places] if own is not None else []
        timeout_ms = self._settings.connect_timeout_ms
        for place in registration.places:
            await require_dialable(name, place.endpoint, own_places, self._allows_local, timeout_ms, self._hosts)

    async def _look(self, state: PeerState, registration: Registration) -> Certificate:
        await self._require_dialable(state.name, registration)
        timeout_ms = self._settings.connect_timeout_ms
        certificate = await look_at_certificate(state.name, registration, self._wall_clock(), timeout_ms, self._hosts)
        state.seen_fingerprint = certificate.fingerprint
        state.certificate_trouble.end()
        if self._known.get(certificate.fingerprint) is None:
            self._known.add(certificate)
            self._trust()
        return certificate

    async def _look_in_passing(self, state: PeerState, registration: Registration) -> None:
        """Look for a certificate that is announced and not known yet, while the connection is up."""
        try:
            await self._look(state, registration)
        except (Refused, Unavailable) as error:
            if state.certificate_trouble.is_new(str(error)):
                catalogue.PEER_CERTIFICATE_UNKNOWN.log(peer=state.name, reason=str(error))
        finally:
            state.looking = None

    def _start(self, link: Link, first: Hello | None = None) -> asyncio.Task[None]:
        assert self._group is not None
        task = self._group.create_task(link.run(first))
        self._links.add(task)
        task.add_done_callback(self._links.discard)
        return task

    # Being dialed.

    def _knocked(self) -> None:
        """A handshake begins; gRPC reports this in its own thread, without the peer or the result."""
        self.handshakes_begun += 1
        if self._loop is not None and not self._is_look_due:
            self._is_look_due = True
            with suppress(RuntimeError):  # The loop has closed.
                self._loop.call_soon_threadsafe(self._look_around)

    def _look_around(self) -> None:
        """Once for all unknown peers since the last time."""
        self._is_look_due = False
        self._take_turns(TURNS_AT_A_KNOCK)
        for state in self._states.values():
            registration = self._registry.registrations().get(state.name)
            if registration is None:
                continue
            if state.link is None or any(self._known.get(each) is None for each in registration.fingerprints):
                state.hurry(self._now_s())

    async def _accept(self, stream: AcceptedStream, shown_pem: bytes) -> None:
        """A call of a peer whose certificate TLS accepted; it is over when this returns."""
        who = shown_fingerprint(shown_pem)
        try:
            name, certificate = identify(shown_pem, self._registry.registrations(), self._wall_clock())
            who = name
            self.connections_identified += 1
            state = self._state_for(name)
            theirs = await self._await_hello(state, stream)
            renewed = state.link if theirs.is_renewal else None
            await self._await_settled(state)
            generation = self._generation_shown_in(theirs)
            link = self._link(state, stream, certificate, theirs, generation=generation, is_dialed=False)
            self._settle(state, link, renewed)
        except Refused as refusal:
            self.endings.note(who, refusal.ending)
            await _part(stream, refusal.ending)
        except Unavailable as error:
            self.endings.note(who, Ending(Reason.CUT_OFF, str(error)))
        else:
            await self._run_accepted(link)

    def _generation_shown_in(self, hello: Hello) -> int:
        """A handshake may begin under our previous certificate and end under this one."""
        is_current = hello.shown_fingerprint == self._identity.certificate.fingerprint
        return self._generation if is_current else self._generation - 1

    async def _run_accepted(self, link: Link) -> None:
        """In a task of ours, so that an error in it ends the node; gRPC cancels its own when the peer is gone."""
        task = self._start(link, Hello(self.name, link.peer, self._life, announcement=self._announcement))
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            link.end(Ending(Reason.CUT_OFF, "the connection was cut"))
            raise

    def _state_for(self, name: NodeName) -> PeerState:
        if name == self.name:
            raise refused(Reason.STRANGER, "somebody shows our own certificate")
        state = None if self._is_stopping else self._state_of(name)
        if state is None or state.is_paused(self._now_s()) or state.hellos >= self._settings.hellos_max:
            raise refused(Reason.BUSY, f"{self.name} does not take this connection now")
        return state

    async def _await_hello(self, state: PeerState, stream: Stream) -> Hello:
        state.hellos += 1
        try:
            async with asyncio.timeout(self._settings.connect_timeout_ms / 1_000):
                return read_hello(await stream.read(), self.name, state.name)
        except TimeoutError as error:
            raise Unavailable("it did not say hello") from error
        finally:
            state.hellos -= 1

    async def _await_settled(self, state: PeerState) -> None:
        """Two hellos cross, and our connection would be the one that stays: wait until it is up or has failed.

        Otherwise this one might be up for a moment, and its messages lost when the other replaces it.
        """
        if state.greeting is not None and self.name < state.name:
            await asyncio.wait([state.greeting], timeout=self._settings.connect_timeout_ms / 1_000)

    # One connection for each peer.

    def _link(
        self,
        state: PeerState,
        stream: Stream,
        certificate: Certificate,
        hello: Hello,
        *,
        generation: int,
        is_dialed: bool,
    ) -> Link:
        return Link(
            state.name,
            stream,
            is_dialed=is_dialed,
            hello=hello,
            certificate=certificate,
            generation=generation,
            outbox=state.outbox,
            allowance=state.allowance,
            settings=self._settings,
            events=self,
        )

    def _settle(self, state: PeerState, link: Link, renewed: Link | None) -> None:
        """Make it the connection of its peer, in place of the present one; or refuse it, when that one stays."""
        if self._is_stopping or self._states.get(state.name) is not state:
            raise refused(Reason.STOPPING, f"{self.name} stops")
        old = state.link
        if old is not None:
            is_same_life = old.their_hello.life == link.their_hello.life
            has_crossed = is_same_life and old is not renewed and old.is_dialed != link.is_dialed
            if has_crossed and link.is_dialed != (self.name < state.name):
                raise refused(Reason.CROSSED, "two connections crossed, and the other one stays")
            if old is not renewed and not has_crossed:
                # The peer has lost the old one, or it would not dial.
                self._tell_lost(state, Ending(Reason.REPLACED, "the peer has connected again"))
        state.link = link
        state.announced = link.their_hello.announcement
        if old is not None:
            old.end(Ending(Reason.REPLACED, "another connection takes its place"))

    def link_up(self, link: Link) -> None:
        """It works in both directions."""
        state = self._states[link.peer]
        state.succeeded()
        self.endings.forget(state.name)
        self._tell_connected(state)
        if self._is_dial_due(state):
            state.wake()

    def link_said(self, link: Link, envelope: Envelope) -> None:
        """The peer sent this message."""
        self._tell(MessageReceived(link.peer, envelope))

    def link_is_behind(self, link: Link) -> bool:
        """Whether many messages of the peer wait for the core."""
        return self.is_behind(link.peer)

    def link_flaw(self, link: Link) -> Refused | None:
        """Its certificate was revoked or has expired since."""
        return registration_flaw(link.certificate, self._registry.registrations().get(link.peer), self._wall_clock())

    def link_ended(self, link: Link, ending: Ending) -> None:
        """It has ended. No event is raised if another has replaced it already."""
        state = self._states.get(link.peer)
        if state is None or state.is_told_up is True:
            # The disconnection is logged if no other link takes its place.
            self.endings.count(ending)
        else:
            self.endings.note(link.peer, ending)
        if state is None or state.link is not link:
            return
        state.link = None
        state.failed(self._now_s(), ending)
        state.wake()
        if ending.is_theirs and ending.reason in SUPERSEDED and self._loop is not None:
            # The peer has settled on the other of two that crossed a moment before we do. If it has not, it is lost.
            self._loop.call_later(self._settings.heartbeat_ms / 1_000, self._tell_if_lost, state, ending)
        else:
            self._tell_lost(state, ending)

    def _tell_if_lost(self, state: PeerState, ending: Ending) -> None:
        if state.link is None and self._states.get(state.name) is state:
            self._tell_lost(state, ending)

    def _tell_connected(self, state: PeerState) -> None:
        if state.is_told_up is not True and not self._is_stopping:
            state.is_told_up, state.up_since_s = True, self._now_s()
            self.endings.log_connected(state.name)
            self._tell(ConnectionMade(state.name))

    def _tell_lost(self, state: PeerState, ending: Ending) -> None:
        if state.is_told_up is not False and not self._is_stopping:
            if state.is_told_up:
                self.endings.log_disconnected(state.name, ending)
            state.is_told_up, state.up_since_s = False, None
            self._tell(ConnectionLost(state.name))

    # The rest.

    def _trust(self) -> None:
        self._server.trust(self._identity, self._known.pem())

    async def _drain(self) -> None:
        """Send the queues and a goodbye, each within a time limit."""
        links = [state.link for state in self._states.values() if state.link is not None]
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.stop_timeout_ms / 1_000):
                while not all(link.is_drained for link in links):
                    await asyncio.sleep(DRAIN_LOOK_S)
        self._is_stopping = True
        for link in links:
            link.end(Ending(Reason.STOPPING, f"{self.name} stops"))
        if self._links:
            await asyncio.wait(self._links, timeout=self._settings.stop_timeout_ms / 1_000)
        await self._server.stop(self._settings.stop_timeout_ms)

    def _now_s(self) -> float:
        assert self._loop is not None, "it runs"
        return self._loop.time()

    def _now_ms(self) -> int:
        return int(self._now_s() * 1_000)


async def _part(stream: Stream, ending: Ending) -> None:
    """Send the reason if there is one, let the peer read it, and close, all within a moment (see `Link`)."""
    with suppress(Unavailable, TimeoutError):
        if not ending.is_theirs:
            async with asyncio.timeout(PARTING_MS / 1_000):
                await stream.write(goodbye_bytes(ending))
                while isinstance(stream, AcceptedStream) and await stream.read() is not None:
                    pass
    await stream.close()
