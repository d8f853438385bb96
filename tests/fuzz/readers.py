"""Every reader of bytes that a peer, a proposer or any account on the chain chose, with real bytes to change.

`READERS` states how each is fuzzed: bytes that it reads, and the errors by which it refuses others. `DECODERS` names
every function that decodes anything, with the reader that reaches it, or whose bytes it reads instead:
`test_readers.py` compares the table with the code, so that a new function that decodes needs an entry.
"""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from eth_abi.abi import encode

from rota import host
from rota.abi import codec
from rota.calldata import ROUND_TOPIC, SKIPPED_TOPIC, decode_payload, encode_payload
from rota.domains.available import Shelf
from rota.domains.base import Rejected
from rota.domains.contents import told_in, unseal
from rota.domains.locking import Permitted, permitted_by
from rota.engine import drafting
from rota.engine.contracts import ContractRefused
from rota.host import Background, Hosted
from rota.host.encryption import decrypted, encrypted_for
from rota.host.proving import is_believed
from rota.keys.certificates import make_identity
from rota.keys.one_time import is_signed_by_intent
from rota.keys.secp256k1 import private_key, to_compact
from rota.keys.signatures import has_endorsed, has_signed_leaf
from rota.ledger import bindings, registry, signatures
from rota.ledger.reading import Log
from rota.model.digests import state_commitment
from rota.model.genesis import Genesis, MalformedGenesis, decode_genesis
from rota.model.types import (
    BlockHash,
    ContractAddress,
    Digest,
    IntentId,
    Leaf,
    NodeName,
    Party,
    RequestId,
    State,
    StateId,
    Transition,
    node_of,
)
from rota.sequencer.effects import AssembleIntents, CheckRound
from rota.service.groups.mail import _is_content
from rota.store import SqliteDatabase
from rota.store.groups import _described
from rota.testing.simulation import Verifiers, secret_of
from rota.transport.certificates import read_certificate
from rota.transport.endings import Ending, Reason, Refused
from rota.transport.handshake import identify, read_hello, shown_fingerprint
from rota.transport.parts import Hello, frame_bytes, goodbye_bytes, hello_bytes, ping_bytes, read_part
from rota.wire.codec import decode_frame, encode_frame
from rota.wire.messages import Snapshot
from tests.fuzz.corruption import corrupted, noisy
from tests.fuzz.world import ADDRESS, SETTINGS, Quiet, calm
from tests.ledger.participant import OneKey
from tests.wire.samples import MESSAGE_TYPES, full_envelope

US, PEER = NodeName("node1"), NodeName("node2")
WORD: Final = bytes(range(32))
ACCOUNT: Final = ContractAddress("0x" + "ab" * 20)
LEAF: Final = Leaf(b"\1" * 32)
MADE_AT_S: Final = 1_767_225_600

Change = Callable[[Random, bytes], bytes]


class Reader(NamedTuple):
    """What it is given, changed; and by which errors it refuses that."""

    corpus: Callable[[], Sequence[bytes]]
    read: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...] = ()
    change: Change = noisy


class Own(NamedTuple):
    """Who wrote the bytes instead: this node, its operator, its users, whom a rule of their own bounds."""

    whose: str


# What a peer sends.


@lru_cache(maxsize=1)
def _frames() -> tuple[bytes, ...]:
    return tuple(encode_frame((full_envelope(kind),)) for kind in MESSAGE_TYPES)


@lru_cache(maxsize=1)
def _parts() -> tuple[bytes, ...]:
    hello = Hello(PEER, US, b"12345678", shown_fingerprint=WORD)
    return (hello_bytes(hello), ping_bytes(7), goodbye_bytes(Ending(Reason.BUSY, "full")), frame_bytes(_frames()[0]))


@lru_cache(maxsize=1)
def _certificates() -> tuple[bytes, ...]:
    return (make_identity(PEER, MADE_AT_S).certificate.der,)


def _pem(content: bytes) -> bytes:
    return b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(content) + b"-----END CERTIFICATE-----\n"


def _verify(signature: bytes) -> None:
    """The core has these verified in the event loop; the verifier is a peer's word too."""
    text = signature[:42].decode("latin-1")
    for verifier in (ACCOUNT, text):
        has_signed_leaf(verifier, LEAF, 1_000, signature)
        has_endorsed(verifier, Digest(WORD), signature)
    is_signed_by_intent(IntentId(bytes(16)), LEAF, 1_000, signature)


@lru_cache(maxsize=1)
def _signatures() -> tuple[bytes, ...]:
    made = private_key(WORD).sign(WORD)
    return (made, to_compact(made))


# What a proposer writes.


@lru_cache(maxsize=8)
def _calm(name: str) -> Quiet:
    with tempfile.TemporaryDirectory() as folder:
        return calm(name, lambda node: SqliteDatabase(Path(folder) / f"{node}.db", node))


def _genesis(name: str) -> tuple[bytes, ...]:
    return (_calm(name).known.genesis,)


def _configuration(name: str) -> tuple[bytes, ...]:
    return (decode_genesis(_calm(name).known.genesis).configuration,)


def _consider(name: str, content: bytes) -> object:
    contracts = _calm(name).contracts
    return contracts.consider(content, IntentId(bytes(16)), (), OneKey(), NodeName("C"))


def _open(name: str, configuration: bytes) -> None:
    quiet = _calm(name)
    genesis: Genesis = replace(decode_genesis(quiet.known.genesis), configuration=configuration)
    domain = quiet.hosted.domain
    host.open_genesis({domain.name: domain}, genesis, ADDRESS, bytes(32))


# Contents of states.


def _contents(name: str) -> tuple[bytes, ...]:
    return _calm(name).contents


def _held(hosted: Hosted, content: bytes) -> tuple[State, Transition]:
    node = hosted.contract.committee[0]
    state = State(StateId(LEAF, 0), state_commitment(content), (node,), content)
    return state, Transition(IntentId(bytes(16)), LEAF, outputs=(state,), info=(WORD,))


def _unseal(name: str, content: bytes) -> None:
    unseal(_calm(name).hosted.known, content)


def _hold(name: str, content: bytes) -> None:
    """As a node does with confirmed states."""
    hosted = replace(_calm(name).hosted, secret_of=secret_of)
    node = hosted.contract.committee[0]
    state, transition = _held(hosted, content)
    shelf: Shelf = host.shelved(hosted, [state], node)
    is_believed(hosted, state, {LEAF: transition})
    host.learn(hosted, [state], node)
    permitted_by(hosted.separator, transition)
    told_in(content, Permitted)
    shelf.remove(state.id)


def _show(name: str, content: bytes) -> None:
    """As a node does for a receipt, and for a draft of another party."""
    hosted = _calm(name).hosted
    _, transition = _held(hosted, content)
    host.receipt(hosted, transition, {}, hosted.contract.committee[0])


def _endorse(name: str, content: bytes) -> None:
    """As an endorser does: one output of a real transition has another content."""
    quiet = _calm(name)
    hosted, random = quiet.hosted, Random(content)
    made = random.choice(quiet.transitions)
    at = random.randrange(len(made.outputs))
    outputs = tuple(replace(each, content=content) if n == at else each for n, each in enumerate(made.outputs))
    changed = replace(made, outputs=outputs)
    node = (hosted.contract.endorsers or hosted.contract.committee)[0]
    senders = (Party(f"user@{node}"),)
    order = CheckRound(
        contract=hosted.contract.address,
        peer=PEER,
        request_id=RequestId(1, 1),
        digest=Digest(WORD),
        transitions=(changed,),
        senders=senders,
        valid_until_s=made.valid_until_s,
        makers=(changed, *quiet.transitions[:4]),
    )
    background = Background(verifiers=Verifiers(hosted.domain))
    host.check(hosted, order, {}, node, background)


def _assemble(name: str, content: bytes) -> None:
    """As a sender does on a snapshot that a coordinator made up."""
    quiet = _calm(name)
    state, _ = _held(quiet.hosted, content)
    node = quiet.hosted.contract.committee[0]
    order = AssembleIntents(
        quiet.hosted.contract.address, RequestId(1, 1), quiet.intents, Snapshot(states=(state,)), 1, 1, 1
    )
    host.assemble(quiet.hosted, order, {}, node, Background(verifiers=Verifiers(quiet.hosted.domain)))


def _explain(name: str, revert: bytes) -> None:
    quiet = _calm(name)
    for intent in quiet.intents:
        host.explain(quiet.hosted, intent, revert)


def _decrypt(content: bytes) -> None:
    hosted = _calm("zeto").hosted
    encrypted = State(StateId(LEAF, 0), WORD, (US,), content)
    decrypted(hosted, encrypted, secret_of)


@lru_cache(maxsize=1)
def _encrypted() -> tuple[bytes, ...]:
    hosted = _calm("zeto").hosted
    contents = _contents("zeto")
    states = [State(StateId(LEAF, 0), state_commitment(each), (US,), each) for each in contents]
    made = [encrypted_for(hosted, each, node_of(_reader(hosted, each)), bytes(range(48))) for each in states]
    return tuple(each.content for each in made if each.content is not None)


def _reader(hosted: Hosted, state: State) -> Party:
    return unseal(hosted.known, state.content or b"").readers[0]


# Logs, answers and reverts of contracts.


def _log(topics: tuple[bytes, ...], content: bytes) -> Log:
    return Log(ACCOUNT, topics, content, 1, BlockHash(WORD), WORD, 0)


ERROR_TEXT: Final = bytes.fromhex("08c379a0")
PANIC: Final = bytes.fromhex("4e487b71")
_EVENT: Final = "Told(address indexed,string,(uint256,bytes)[])"
_EVENT_ENTRY: Final = codec.entry_of(
    {
        "type": "event",
        "name": "Told",
        "inputs": [
            {"name": "who", "type": "address", "indexed": True},
            {"name": "text", "type": "string"},
            {"name": "all", "type": "tuple[]", "components": [{"type": "uint256"}, {"type": "bytes"}]},
        ],
    },
    "event",
)
_EVENT_TYPES: Final = ["string", "(uint256,bytes)[]"]


@lru_cache(maxsize=1)
def _event_data() -> tuple[bytes, ...]:
    return (encode(_EVENT_TYPES, ["a text", [(1, b"x"), (2, b"y" * 40)]]),)


@lru_cache(maxsize=1)
def _reverts() -> tuple[bytes, ...]:
    known = [selector + bytes(32 * len(entry["inputs"])) for selector, entry in bindings._errors().items()]
    return (ERROR_TEXT + encode(["string"], ["a reason"]), PANIC + encode(["uint256"], [17]), *known)


def _decode_event(content: bytes) -> None:
    signature = signatures.read_signature(_EVENT)
    for topic in (WORD, content[:32].ljust(32, b"\xff")):
        signatures.decode_log(_EVENT, _log((signature.hash, topic), content))


def _show_event(content: bytes) -> None:
    codec.decode_event(_EVENT_ENTRY, (_EVENT_ENTRY.topic, content[:32].ljust(32, b"\xff")), content, "data")


def _explain_revert(content: bytes) -> None:
    bindings.explain_any(content)
    bindings.revert_text(content)
    host.revert_in("reverted with 0x" + content.hex())


def _read_outcomes(content: bytes) -> None:
    """Of an awaited contract, which any account may have deployed under the id, with any code."""
    for topics in ((ROUND_TOPIC, WORD), (SKIPPED_TOPIC, WORD, WORD, WORD), (ROUND_TOPIC, WORD, WORD, WORD)):
        bindings.outcomes_of((_log(topics, content),), 1337)
    decode_payload(content, WORD)


@lru_cache(maxsize=1)
def _payloads() -> tuple[bytes, ...]:
    made = _calm("pente").transitions[:3]
    payload = encode_payload(tuple(made), 1_000)
    offset = (64).to_bytes(32, "big")
    padded = payload + bytes(-len(payload) % 32)
    return (payload, bytes(31) + b"\1" + offset + len(payload).to_bytes(32, "big") + padded)


_DEPLOYED: Final = bindings.deployment_topics()


def _of_domain(name: str) -> dict[str, Reader]:
    """The readers of a contract of this domain."""

    def reader(
        corpus: Callable[[str], Sequence[bytes]], read: Callable[[str, bytes], object], *refusals: type[Exception]
    ) -> Reader:
        return Reader(partial(corpus, name), partial(read, name), refusals, corrupted)

    return {
        "genesis": reader(_genesis, lambda _, content: decode_genesis(content), MalformedGenesis),
        "proposal": reader(_genesis, _consider, ContractRefused),
        "configuration": reader(_configuration, _open, Rejected),
        "content": reader(_contents, _unseal, Rejected),
        "held state": reader(_contents, _hold),
        "receipt": reader(_contents, _show, Rejected),
        "round": reader(_contents, _endorse),
        "snapshot": reader(_contents, _assemble),
        "explained revert": Reader(_reverts, partial(_explain, name)),
    }


READERS: Final[dict[str, Reader]] = {
    "frame": Reader(_frames, decode_frame),
    "part": Reader(_parts, read_part),
    "hello": Reader(_parts, lambda part: read_hello(part, US, PEER), (Refused,)),
    "certificate": Reader(_certificates, read_certificate, (ValueError,)),
    "shown certificate": Reader(
        _certificates, lambda der: identify(_pem(der), {}, datetime(2026, 2, 1, tzinfo=UTC)), (Refused,)
    ),
    "fingerprint": Reader(_certificates, lambda der: shown_fingerprint(_pem(der))),
    "signature": Reader(_signatures, _verify),
    "opening": Reader(_frames, drafting.read_opening, (Rejected,)),
    "group message": Reader(lambda: (b'{"a":[1,"x",null]}',), _is_content, change=corrupted),
    "stored group": Reader(partial(_genesis, "pente"), _described, change=corrupted),
    **{f"{what} of {name}": reader for name in SETTINGS for what, reader in _of_domain(name).items()},
    "encrypted state": Reader(_encrypted, _decrypt, (Rejected,)),
    "revert": Reader(_reverts, _explain_revert),
    "event of a trigger": Reader(_event_data, _decode_event),
    "event of a listener": Reader(_event_data, _show_event, (Rejected,)),
    "answer of a contract": Reader(
        _event_data, lambda content: signatures.decode_values(tuple(_EVENT_TYPES), content), (ValueError,)
    ),
    "answer of the Registry": Reader(
        lambda: (encode(["(address,bytes32,bytes32,string)"], [(ACCOUNT, WORD, WORD, "dns:///host:1")]),),
        bindings.read_node,
        (ValueError,),
    ),
    "registered node": Reader(
        lambda: (encode(["string", "bytes32", "bytes32", "string"], ["node1", WORD, WORD, "dns:///host:1"]),),
        lambda content: registry.read_change(_log((registry.NODE_CHANGED, WORD, WORD), content)),
        (ValueError,),
    ),
    "deployment": Reader(
        lambda: (encode(["address[]", "uint256"], [[ACCOUNT], 1]), encode(["address", "bytes32"], [ACCOUNT, WORD])),
        lambda content: [bindings.read_deployment(_log((kind, WORD, WORD, WORD), content)) for kind in _DEPLOYED],
        (ValueError,),
    ),
    "round log": Reader(_payloads, _read_outcomes),
}

_WITHIN_ROUND: Final = Own("contents of `permitted_by`, within an endorser's question, whose every exception is caught")
_TYPED: Final = Own("this node's database: it was encoded from the same type")
_USERS: Final = Own("a caller of the API, within the bounds of a call; an exception is answered and ends nothing else")
_OPERATOR: Final = Own("a file of the operator")
_CHECKED: Final = Own("what `decode_genesis` took before it was written")
_CHAIN: Final = Own("the operator's Ethereum node")
_SIGNED: Final = Own("a transaction that this node signed")

# Functions that decode, by module; the reader that reaches each, or whose bytes it reads.
DECODERS: Final[dict[str, str | Own]] = {
    "abi.codec:_json": _USERS,
    "abi.codec:explain_revert": "revert",
    "abi.codec:_decoded": "event of a listener",
    "directory.deployment_base:DeploymentBase.__init__": _CHECKED,
    "directory.deployment:known_from": _CHECKED,
    "directory.proposals:Proposals._policy_for": _CHECKED,
    "directory.proposals:Proposals.may_acquire": "genesis of pente",
    "directory.proposals:Proposals.known_in": _CHECKED,
    "domains.available:readable": "held state of noto",
    "domains.contents:_unseal": "content of noto",
    "domains.contents:told_in": "held state of noto",
    "domains.locking:permitted_by": "held state of noto",
    "domains.noto.domain:_arguments_of": "round of noto",
    "domains.noto.hooks:_call_of": Own("requests of hooked tokens, for `Carrying`, which catches every exception"),
    "domains.pente.domain:_call": Own("what private code emits, which runs in a worker"),
    "domains.pente.domain:_properties": _USERS,
    "domains.pente.groups:group_in": "stored group",
    "engine.contracts:KnownContracts.add": _CHECKED,
    "engine.contracts:KnownContracts._opened": "proposal of pente",
    "engine.drafting:read_opening": "opening",
    "host.__init__:read_configuration": "configuration of pente",
    "host.__init__:bound": Own("the payload of a draft of this node's user"),
    "host.__init__:binding_of": Own("the payload of a draft of this node's user"),
    "host.__init__:_payload_of": "snapshot of noto",
    "host.__init__:_transition": Own("what this node has just sealed"),
    "host.checking:_Bench._made": "round of noto",
    "host.locking:stated_lock": _WITHIN_ROUND,
    "host.locking:_told": _WITHIN_ROUND,
    "keys.certificates:Certificate.pem": _OPERATOR,
    "keys.certificates:make_identity": _OPERATOR,
    "keys.certificates:read_certificate": _OPERATOR,
    "keys.certificates:read_identity": _OPERATOR,
    "keys.keystore:_object_in": _OPERATOR,
    "ledger.artifacts.__init__:artifact_from_json": Own("a file of this package"),
    "ledger.bindings:decode_result": "answer of the Registry",
    "ledger.bindings:_policy_in": "deployment",
    "ledger.bindings:revert_text": "revert",
    "ledger.registry:read_change": "registered node",
    "ledger.signatures:decode_values": "answer of a contract",
    "ledger.signatures:decode_log": "event of a trigger",
    "ledger.signatures:_topic_value": "event of a trigger",
    "ledger.submission:Submission.note": _SIGNED,
    "ledger.transaction:_items": _SIGNED,
    "ledger.transports:WebSocketTransport._take": _CHAIN,
    "ledger.transports:read_answers": _CHAIN,
    "model.genesis:decode_genesis": "genesis of pente",
    "model.json_text:read_json": "content of noto",
    "node.acquaintance:Acquaintance._give": _CHECKED,
    "prover.key_files:read_transcript": _OPERATOR,
    "prover.key_files:_read_key": _OPERATOR,
    "rpc.methods:Method._in_order": _USERS,
    "server.command_server:CommandServer._received": _USERS,
    "server.command_server:_json_of": _USERS,
    "server.credentials_file:read_credentials": _OPERATOR,
    "server.grpc_calls:_read": _USERS,
    "server.jsonrpc:Dispatcher.answer": _USERS,
    "server.jsonrpc:Dispatcher._answer_one": _USERS,
    "server.table:example_of": Own("a file of this package"),
    "service.abis.types:_view": _TYPED,
    "service.commands.kept_submissions:decode_submission": _TYPED,
    "service.consent.consents:shown_question": _CHECKED,
    "service.groups.groups:Groups._terms_of": _CHECKED,
    "service.groups.groups:message_view": "group message",
    "service.groups.mail:_is_content": "group message",
    "service.listeners.chain_events:ChainEvents.decode": _TYPED,
    "service.listeners.messages:MessageSource.decode": _TYPED,
    "service.public.held:content_of": _SIGNED,
    "service.receipts.following:Following._shown_round": _SIGNED,
    "service.receipts.following:transaction_view": _TYPED,
    "service.receipts.order:ReceiptOrder._domain": _CHECKED,
    "service.receipts.order:ReceiptSource.decode": _TYPED,
    "service.receipts.views:ReceiptViews.domain_of": _CHECKED,
    "service.submissions.intents:Intents.of": _CHECKED,
    "service.submissions.payees:Payees._is_named": _CHECKED,
    "service.submissions.reading:Submitting.read": _TYPED,
    "service.submissions.repeating:Repeats._shown": _TYPED,
    "service.submissions.repeating:Repeats._digest_of_private": _TYPED,
    "service.submissions.repeating:Repeats._asked_in_genesis": _CHECKED,
    "store.abis:_entries": _TYPED,
    "store.groups:_described": "stored group",
    "transport.certificates:Identity.certificate": _OPERATOR,
    "transport.certificates:der_of": "fingerprint",
    "transport.certificates:read_certificate": "certificate",
    "transport.certificates:_judged": "certificate",
    "transport.handshake:identify": "shown certificate",
    "transport.handshake:read_hello": "hello",
    "transport.link:Link._take": "part",
    "transport.link:_timed": "frame",
    "transport.parts:read_part": "part",
    "transport.registry:read_registry": _OPERATOR,
    "wire.codec:decode_frame": "frame",
    "wire.codec:_version_flaw": "frame",
}
