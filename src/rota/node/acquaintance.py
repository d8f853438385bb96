"""Discovery of contracts that other nodes have and this one lacks: one per node (decision 32).

Theory of operation. A contract is brought to its nodes before it is on the chain (`directory/proposals.py`). Two kinds
of nodes need it later: one that no genesis names and that receives a message of the contract, and one that has lost its
database. Both ask a node that has it.

- A message of a contract that is neither in memory nor in the store: its author is asked for the genesis.
- A connection is made: the peer is asked which contracts this node may have, page by page; for those that it lacks it
  requests the genesis, a few at a time.

No answer is believed unchecked. The genesis must have the hash that the factory recorded on the chain, at that very
address, under the intent that the peer names, and this node's key must be among the signers if it endorses:
`service.contracts.acquainting` looks that up, and takes the contract in as one added by the operator. Without a
factory there is no look-up, so no peer is asked.

A node gives a genesis only to a peer to which it is open: that of a ring to the nodes that it names, any other
to every registered node, as when it was deployed (decision 61).

The address of a privacy group is on the chain, but its members are not. So a peer that is no member and names
a group that this node has gets the same answer as if the node lacked it: it is asked for the genesis, as a decoy, and
any answer counts as false (`is_hidden_from`).

A stranger must not cause much work. Open requests are bounded, for all and for one peer, and so is how often one
peer is asked or served. A peer whose genesis is not on the chain is asked nothing for `MISTRUST_MS`; a contract that is
not for this node is not requested from the same peer again for `REFUSED_MS`. Queued requests end with the connection.

The contract of an honest peer may be missing on the chain too: the block of the deployment was reorganised away, or
this node's Ethereum node is behind. No message may name the contract again, so after `MISTRUST_MS` the node asks the
peer for its list again, `PARDONS_MAX` times a connection.

A peer that does not answer must not block requests to another: a peer that names a contract while another one is
asked for it, or while there is no room, waits in one queue for all, and is asked in its turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from rota.directory.acquaintance_events import (
    AcquisitionEnded,
    AnswerOverdue,
    ContractsListed,
    ContractsSifted,
    GenesisFound,
    ListDue,
    PauseEnded,
)
from rota.directory.effects import AcquireContract, FindGenesis, ListContracts, SiftContracts
from rota.machine.tables import Event
from rota.machine.timers import Timers
from rota.model.genesis import decode_genesis
from rota.model.types import NO_CONTRACT, ContractAddress, NodeName, RequestId
from rota.node.owner import Owner
from rota.wire.messages import (
    CONTRACTS_LISTED_MAX,
    ContractsRequest,
    ContractsResponse,
    ContractTakenIn,
    DeploymentAnswer,
    DeploymentProposal,
    DeploymentWithdrawn,
    GenesisRequest,
    GenesisResponse,
    Message,
    StateDistributionAcknowledgement,
    StateRequest,
    Verdict,
    VerifierResponse,
)

# Messages that are not about the contract in their envelope, or that are not answered to strangers.
UNANSWERED = (
    ContractsRequest,
    ContractsResponse,
    ContractTakenIn,
    DeploymentAnswer,
    DeploymentProposal,
    DeploymentWithdrawn,
    GenesisRequest,
    GenesisResponse,
    StateDistributionAcknowledgement,
    StateRequest,
)
FIRST = ContractAddress("0x" + "00" * 20)
ASKED_MAX = 64
ASKED_OF_PEER_MAX = 8
PAGES_MAX = 64
TRIES_MAX = 4
PARDONS_MAX = 8
# The queue's limit for all; that of one peer is the limit of its open requests.
WAITING_MAX = 4_096
REFUSED_KEPT_MAX = 1_024
PEERS_KEPT_MAX = 4_096
RATE_WINDOW_MS = 1_000
ASKED_A_WINDOW_MAX = 64
SERVED_A_WINDOW_MAX = 128
SERVED_BYTES_A_WINDOW_MAX = 2_097_152
LISTED_A_WINDOW_MAX = 4
ACQUISITION_MS = 30_000
BUSY_MS = 2_000
MISTRUST_MS = 60_000
REFUSED_MS = 600_000


@dataclass(slots=True)
class Allowance:
    """A limit on acts for one peer, in number or size, in windows of time."""

    most: int
    since_ms: int = 0
    count: int = 0

    def take(self, now_ms: int, amount: int = 1) -> bool:
        """Count so much more and return whether the limit allows it."""
        if now_ms - self.since_ms >= RATE_WINDOW_MS:
            self.since_ms, self.count = now_ms, 0
        self.count += amount
        return self.count <= self.most

    def is_used_up(self, now_ms: int) -> bool:
        """Whether the limit of this window is reached."""
        return now_ms - self.since_ms < RATE_WINDOW_MS and self.count >= self.most


@dataclass(slots=True)
class Acquainted:
    """One peer: the page of its list that is requested, and the contracts wanted from it, with the number of tries."""

    list_id: RequestId | None = None
    list_tries: int = 0
    after: ContractAddress | None = None
    pages: int = 0
    wanted: dict[ContractAddress, int] = field(default_factory=dict)
    open: dict[ContractAddress, None] = field(default_factory=dict)
    waiting: dict[ContractAddress, None] = field(default_factory=dict)
    mistrusted_until_ms: int = 0
    pardons: int = 0
    asking: Allowance = field(default_factory=lambda: Allowance(ASKED_A_WINDOW_MAX))
    serving: Allowance = field(default_factory=lambda: Allowance(SERVED_A_WINDOW_MAX))
    serving_bytes: Allowance = field(default_factory=lambda: Allowance(SERVED_BYTES_A_WINDOW_MAX))
    listing: Allowance = field(default_factory=lambda: Allowance(LISTED_A_WINDOW_MAX))


@dataclass(slots=True)
class Asked:
    """A contract whose genesis was requested; `is_judged` when it came and is being checked on the chain.

    With `is_decoy` this node has the contract, which the peer must not learn.
    """

    peer: NodeName
    request_id: RequestId
    is_decoy: bool
    is_judged: bool = False


class Acquaintance:
    """This node's requests for contracts that it lacks, and its answers about its own."""

    def __init__(self, node: Owner, factory: ContractAddress) -> None:
        self.node = node
        self.is_able = factory != NO_CONTRACT
        self.timers = Timers()
        self.peers: dict[NodeName, Acquainted] = {}
        self.asked: dict[ContractAddress, Asked] = {}
        # The queue: peer, contract, and whether it is a decoy, in order of arrival.
        self.line: dict[tuple[NodeName, ContractAddress], bool] = {}
        self.refused: dict[tuple[NodeName, ContractAddress], int] = {}
        self.asked_count = 0
        self.given_count = 0
        self.acquired_count = 0
        self.refused_count = 0

    @property
    def is_idle(self) -> bool:
        """Whether no request is open, and no wanted contract or list waits for its turn."""
        is_open = self.asked or self.line
        return not is_open and not any(known.wanted or known.after is not None for known in self.peers.values())

    # Events.

    def connection_changed(self, peer: NodeName, connected: bool) -> None:
        """Ask a connected peer for its list; end all requests to one that is gone."""
        known = self._known(peer)
        self.timers.cancel(self, f"list {peer}")
        known.list_id, known.after, known.pages, known.pardons = None, None, 0, 0
        known.wanted.clear()
        for contract in tuple(known.waiting):
            self._leave_line(peer, contract)
        for contract in tuple(known.open):
            if not self.asked[contract].is_judged:
                self._close(contract)
        self._ask_in_line()
        if connected and self.is_able:
            known.after = FIRST
            self._go_on(peer)

    def is_hidden_from(self, peer: NodeName, contract: ContractAddress, body: Message) -> bool:
        """Whether the message is about a privacy group in memory of which the peer is no member.

        Messages that are not answered to strangers anyway are not hidden (`UNANSWERED`). A party of the peer may be
        named in the group all the same; then an answer that this node requested is not hidden either.
        """
        sequencer = self.node.sequencers.loaded.get(contract)
        if sequencer is None:
            return False
        insiders = sequencer.context.insiders
        if insiders is None or peer in insiders or peer == self.node.name:
            return False
        is_awaited = isinstance(body, VerifierResponse) and sequencer.sender.parties.is_awaited(peer, body)
        return not (is_awaited or isinstance(body, UNANSWERED))

    def note_unknown(self, peer: NodeName, contract: ContractAddress, is_decoy: bool = False) -> None:
        """Ask a peer that named a contract unknown here, or hidden from it; it repeats its message."""
        if self.is_able and contract != NO_CONTRACT:
            self._ask(peer, contract, is_decoy)

    def want_again(self, peer: NodeName, contract: ContractAddress) -> None:
        """Ask again for a contract that was refused: the operator has agreed to it."""
        self.refused.pop((peer, contract), None)
        self.note_unknown(peer, contract)

    def run_timers(self) -> None:
        """Handle due timers: missing answers, and pauses that end."""
        while (due := self.timers.pop_due(self.node.now_ms)) is not None:
            due.machine.handle(due.event)

    def take(
        self,
        peer: NodeName,
        contract: ContractAddress,
        body: ContractsRequest | ContractsResponse | GenesisRequest | GenesisResponse,
    ) -> None:
        """Take a peer's request or answer."""
        match body:
            case ContractsResponse():
                self._take_page(peer, body)
            case GenesisResponse():
                self._take_genesis(peer, contract, body)
            case ContractsRequest(request_id, after):
                if self._known(peer).listing.take(self.node.now_ms):
                    self.node.effects.append(ListContracts(peer, request_id, after))
            case _:
                known, now_ms = self._known(peer), self.node.now_ms
                # It would be read from the store, so not for a peer that would get no answer.
                if known.serving.take(now_ms) and not known.serving_bytes.is_used_up(now_ms):
                    self.node.effects.append(FindGenesis(contract, peer, body.request_id))

    def handle(self, event: Event) -> None:
        """Take the runtime's answers, and timers."""
        match event:
            case ContractsListed(peer, request_id, contracts):
                self.node.send(peer, NO_CONTRACT, ContractsResponse(request_id, contracts[:CONTRACTS_LISTED_MAX]))
            case GenesisFound():
                self._give(event)
            case ContractsSifted(peer, contracts):
                self._known(peer).wanted.update(dict.fromkeys(contracts, 0))
                self._go_on(peer)
            case AcquisitionEnded():
                self._take_ended(event)
            case AnswerOverdue(contract):
                peer = self.asked[contract].peer
                self._close(contract)
                self._ask_in_line()
                self._tried_in_vain(peer, contract)
                self._go_on(peer)
                self._ask_others(contract)
            case ListDue(peer):
                self._ask_for_page(peer)
            case _:
                assert isinstance(event, PauseEnded), f"the acquaintance does not know {type(event).__name__}"
                self._go_on(event.peer)

    # Contracts of others.

    def _take_page(self, peer: NodeName, body: ContractsResponse) -> None:
        """Take a page: addresses in ascending order after the last one; otherwise a list could go on forever."""
        known = self._known(peer)
        if known.list_id != body.request_id or known.after is None:
            return
        self.timers.cancel(self, f"list {peer}")
        in_order = (known.after, *body.contracts)
        if any(one >= other for one, other in pairwise(in_order)):
            self._mistrust(peer)
            return
        is_last = len(body.contracts) < CONTRACTS_LISTED_MAX or known.pages >= PAGES_MAX
        known.list_id, known.after = None, None if is_last else body.contracts[-1]
        if body.contracts:
            self.node.effects.append(SiftContracts(peer, body.contracts))

    def _take_genesis(self, peer: NodeName, contract: ContractAddress, body: GenesisResponse) -> None:
        """Have a requested genesis checked on the chain."""
        asked = self.asked.get(contract)
        if asked is None or asked.is_judged or (asked.peer, asked.request_id) != (peer, body.request_id):
            return
        if asked.is_decoy:
            self._take_ended(AcquisitionEnded(contract, peer, Verdict.REFUSED, is_false=True))
            return
        asked.is_judged = True
        self._expect(contract, ACQUISITION_MS)
        has_consent = self.node.deployments.may_acquire(body.deployment, body.genesis)
        self.node.effects.append(AcquireContract(contract, peer, body.deployment, body.genesis, has_consent))

    def _take_ended(self, event: AcquisitionEnded) -> None:
        asked = self.asked.get(event.contract)
        self.acquired_count += event.verdict is Verdict.ACCEPTED
        if asked is None or asked.peer != event.peer:
            return
        self._close(event.contract)
        if event.verdict is Verdict.ACCEPTED:
            self._note_acquired(event.contract)
        elif event.verdict is Verdict.BUSY:
            self._refuse(event.peer, event.contract, BUSY_MS)
            self._tried_in_vain(event.peer, event.contract)
            self.timers.set(self, f"pause {event.peer}", self.node.now_ms + BUSY_MS, PauseEnded(event.peer))
        else:
            self.refused_count += 1
            self._refuse(event.peer, event.contract, MISTRUST_MS if event.is_false else REFUSED_MS)
            self._known(event.peer).wanted.pop(event.contract, None)
            if event.is_false:
                self._mistrust(event.peer)
        self._ask_in_line()
        self._go_on(event.peer)
        self._ask_others(event.contract)

    def _note_acquired(self, contract: ContractAddress) -> None:
        """Stop asking for it, and go on with other contracts of the peers that would have been asked."""
        for peer, known in tuple(self.peers.items()):
            if contract in known.wanted or contract in known.waiting:
                known.wanted.pop(contract, None)
                self._leave_line(peer, contract)
                self._go_on(peer)

    def _go_on(self, peer: NodeName) -> None:
        """Request as many of its contracts as allowed; when none is left, the next page. A mistrusted peer waits."""
        known = self._known(peer)
        if known.mistrusted_until_ms > self.node.now_ms:
            return
        for contract in tuple(known.wanted):
            if len(known.open) >= ASKED_OF_PEER_MAX:
                break
            self._ask(peer, contract)
        if not known.wanted and known.after is not None and known.list_id is None:
            known.list_id, known.list_tries = self.node.ids.next(), 0
            known.pages += 1
            self._ask_for_page(peer)

    def _ask_others(self, contract: ContractAddress) -> None:
        """Ask other peers that list it; they were not asked while this one was."""
        for peer in [peer for peer, known in self.peers.items() if contract in known.wanted]:
            self._go_on(peer)

    def _ask_for_page(self, peer: NodeName) -> None:
        """Request the page, a few times: an old version cannot answer, but still names its contracts in messages."""
        known = self._known(peer)
        known.list_tries += 1
        if known.list_id is None or known.after is None or known.list_tries > TRIES_MAX:
            known.list_id = known.after = None
            return
        due_ms = self.node.now_ms + (self.node.config.request_timeout_ms << known.list_tries)
        self.timers.set(self, f"list {peer}", due_ms, ListDue(peer))
        self.node.send(peer, NO_CONTRACT, ContractsRequest(known.list_id, known.after))

    def _ask(self, peer: NodeName, contract: ContractAddress, is_decoy: bool = False) -> None:
        """Request a contract from one peer at a time; other peers wait in the queue."""
        known, now_ms = self._known(peer), self.node.now_ms
        is_pointless = max(known.mistrusted_until_ms, self.refused.get((peer, contract), 0)) > now_ms
        if is_pointless or contract in known.open or len(known.open) >= ASKED_OF_PEER_MAX:
            return
        if contract in self.asked or len(self.asked) >= ASKED_MAX:
            if len(known.waiting) < ASKED_OF_PEER_MAX and len(self.line) < WAITING_MAX:
                known.waiting[contract] = None
                self.line.setdefault((peer, contract), is_decoy)
            return
        self._leave_line(peer, contract)
        if not known.asking.take(now_ms):
            return
        request_id = self.node.ids.next()
        self.asked[contract] = Asked(peer, request_id, is_decoy)
        known.open[contract] = None
        self.asked_count += 1
        self._expect(contract, self.node.config.request_timeout_ms)
        self.node.send(peer, contract, GenesisRequest(request_id))

    def _ask_in_line(self) -> None:
        """Ask the peers at the head of the queue, as far as there is room and their contract is not being requested."""
        for (peer, contract), is_decoy in tuple(self.line.items()):
            if len(self.asked) >= ASKED_MAX:
                return
            if contract not in self.asked:
                self._leave_line(peer, contract)
                self._ask(peer, contract, is_decoy)

    def _leave_line(self, peer: NodeName, contract: ContractAddress) -> None:
        self.line.pop((peer, contract), None)
        self._known(peer).waiting.pop(contract, None)

    def _expect(self, contract: ContractAddress, within_ms: int) -> None:
        self.timers.set(self, f"asked {contract}", self.node.now_ms + within_ms, AnswerOverdue(contract))

    def _close(self, contract: ContractAddress) -> None:
        asked = self.asked.pop(contract)
        self._known(asked.peer).open.pop(contract, None)
        self.timers.cancel(self, f"asked {contract}")

    def _tried_in_vain(self, peer: NodeName, contract: ContractAddress) -> None:
        wanted = self._known(peer).wanted
        tries = wanted.pop(contract, TRIES_MAX) + 1
        if tries < TRIES_MAX:
            wanted[contract] = tries

    def _refuse(self, peer: NodeName, contract: ContractAddress, for_ms: int) -> None:
        self.refused.pop((peer, contract), None)
        self.refused[(peer, contract)] = self.node.now_ms + for_ms
        if len(self.refused) > REFUSED_KEPT_MAX:
            del self.refused[next(iter(self.refused))]

    def _mistrust(self, peer: NodeName) -> None:
        """Mistrust a peer after a false answer: drop its list, and request that again only after a while."""
        known = self._known(peer)
        known.mistrusted_until_ms = self.node.now_ms + MISTRUST_MS
        known.list_id, known.after, known.pages = None, None, 0
        known.wanted.clear()
        self.timers.cancel(self, f"list {peer}")
        if known.pardons < PARDONS_MAX:
            known.pardons += 1
            known.after = FIRST
        self.timers.set(self, f"pause {peer}", known.mistrusted_until_ms, PauseEnded(peer))

    # Contracts of this node.

    def _give(self, event: GenesisFound) -> None:
        """Give a genesis only to a peer to which it is open (S8); the cost to decode and send it counts by its size."""
        known = event.known
        has_room = self._known(event.peer).serving_bytes.take(self.node.now_ms, len(known.genesis))
        if known.genesis and has_room and decode_genesis(known.genesis).is_open_to(event.peer):
            self.given_count += 1
            answer = GenesisResponse(event.request_id, known.deployment, known.genesis)
            self.node.send(event.peer, known.contract.address, answer)

    def _known(self, peer: NodeName) -> Acquainted:
        known = self.peers.get(peer)
        if known is None:
            if len(self.peers) >= PEERS_KEPT_MAX:
                self._forget_one()
            known = self.peers[peer] = Acquainted()
        return known

    def _forget_one(self) -> None:
        """Forget the oldest peer without open requests; if there is none, all stay."""
        idle = (
            name
            for name, known in self.peers.items()
            if not (known.open or known.wanted or known.waiting or known.list_id)
        )
        oldest = next(idle, None)
        if oldest is not None:
            del self.peers[oldest]
