"""Walk-throughs as text: commands, the messages of each node, and its changes of state.

A script begins with lines that state what it shows and expects; a person writes these before the first run. Lines that
begin with `>` are commands; the indented lines below them are the record of their run, and recording a script again
rewrites only those. An unmet expectation or a violated invariant is an error, whether recorded or not.

    # The happy path.
    network: nodes A B C, leaders B
    expect: A-1 confirmed
    > submit A-1 at A
    > until A-1 confirmed

A line that cannot be parsed or executed is rejected with its number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from rota.machine.events import CancelRequested, IntentSubmitted, ResumeRequested
from rota.model.types import Intent, IntentId, NodeName, Outcome, Party, SubmitMode
from rota.sim.domain import drawn_id, intent_id, nonce_of
from rota.sim.forgery import Forgery, Lie, can_be_told, tellable
from rota.sim.invariants import violations
from rota.sim.network import ScriptError, build_world, parse_network
from rota.sim.recorder import shown_reply
from rota.sim.transcript import Happening, Transcript, show
from rota.sim.weather import HoldRule, MessageRule
from rota.wire.messages import CoordinatorState, HandoverReason

DEFAULT_LIMIT_MS = 60_000
NAME_BYTES_MAX = 16


@dataclass
class Script:
    """A parsed script: its head, network, expectations and commands, with their line numbers."""

    head: list[str]
    network: str
    expectations: list[str]
    commands: list[str]
    expectation_lines: list[int] = field(default_factory=list)
    command_lines: list[int] = field(default_factory=list)

    @classmethod
    def parse(cls, text: str) -> Script:
        """Parse a script, without its record; raises `ScriptError`."""
        head: list[str] = []
        network = ""
        expectations: list[str] = []
        commands: list[str] = []
        expectation_lines: list[int] = []
        command_lines: list[int] = []
        for number, line in enumerate(text.splitlines(), 1):
            if line.startswith("> "):
                commands.append(line[2:].strip())
                command_lines.append(number)
            elif line.startswith((" ", "\t")) or not line.strip():
                continue
            elif commands:
                raise ScriptError(f"line {number}: the head ends where the first command begins: {line!r}")
            elif line.startswith("network:"):
                network = line.partition(":")[2].strip()
                _require_network(number, network)
            elif line.startswith("expect:"):
                expectations.append(line.partition(":")[2].strip())
                expectation_lines.append(number)
            elif not line.startswith("#"):
                raise ScriptError(f"line {number}: neither a command, nor part of the head: {line!r}")
            if not line.startswith("> "):
                head.append(line)
        if not network or not expectations or not commands:
            raise ScriptError("a script has a network, expectations and commands")
        return cls(head, network, expectations, commands, expectation_lines, command_lines)


class Run:
    """A script and the world that it runs in."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.transcript = Transcript()
        self.intents: dict[str, tuple[NodeName, Intent]] = {}
        self.world, self.contract = build_world(script.network, self.transcript)
        self.record: list[tuple[str, list[Happening]]] = []

    def play(self) -> None:
        """Execute every command, then check the invariants and the expectations; raises `ScriptError`."""
        for name in self.world.nodes:
            self.world.start(name)
        for line, command in zip(self.script.command_lines, self.script.commands, strict=True):
            start = len(self.transcript.happenings)
            _at_line(line, self.do, command)
            self.record.append((command, self.transcript.happenings[start:]))
        for violation in violations(self.world):
            raise ScriptError(f"invariant violated: {violation}")
        for line, expectation in zip(self.script.expectation_lines, self.script.expectations, strict=True):
            _at_line(line, self.hold, expectation)

    def text(self) -> str:
        """The script with its record."""
        lines = [*self.script.head, ""]
        for command, happenings in self.record:
            lines.append(f"> {command}")
            lines.extend(f"    {show(happening)}" for happening in happenings)
        return "\n".join(lines) + "\n"

    def do(self, command: str) -> None:
        """Execute one command."""
        for pattern, action in COMMANDS:
            match = re.fullmatch(pattern, command)
            if match is not None:
                action(self, *match.groups())
                return
        known = "\n  ".join(pattern for pattern, _ in COMMANDS)
        raise ScriptError(f"unknown command {command!r}; there are:\n  {known}")

    def hold(self, expectation: str) -> None:
        """Check one expectation."""
        for pattern, check in EXPECTATIONS:
            match = re.fullmatch(pattern, expectation)
            if match is not None:
                found = check(self, *match.groups())
                if found is not None:
                    raise ScriptError(f"expected {expectation!r}, but {found}")
                return
        known = "\n  ".join(pattern for pattern, _ in EXPECTATIONS)
        raise ScriptError(f"unknown expectation {expectation!r}; there are:\n  {known}")

    # For commands and expectations.

    def node(self, name: str) -> NodeName:
        """The name of a node of this network; raises `ScriptError` for any other."""
        if NodeName(name) not in self.world.nodes:
            raise ScriptError(f"there is no node {name}")
        return NodeName(name)

    def intent(self, name: str) -> IntentId:
        """The id of a submitted intent, or for other names an id that no node knows."""
        if len(name.encode()) > NAME_BYTES_MAX:
            raise ScriptError(f"{name}: an intent's name has at most {NAME_BYTES_MAX} bytes")
        return self.intents[name][1].id if name in self.intents else intent_id(name)

    def submitted(self, name: str) -> tuple[NodeName, IntentId]:
        """A submitted intent and its node, which must be running."""
        if name not in self.intents:
            raise ScriptError(f"{name} was not submitted")
        node, intent = self.intents[name]
        if self.world.nodes[node].core is None:
            raise ScriptError(f"{node}, the node of {name}, is down")
        return node, intent.id

    def is_reported(self, name: str, outcome: str) -> bool:
        """Whether the sender has reported this outcome of an intent."""
        receipts = self.world.receipts.get(self.intent(name), [])
        return any(receipt.outcome.value == outcome for receipt in receipts)

    def sender_state(self, name: str) -> str:
        """The state of an intent at its sender, or "unknown"."""
        for node in self.world.nodes.values():
            for sequencer in node.core.sequencers.loaded.values() if node.core is not None else ():
                transaction = sequencer.sender.transactions.get(self.intent(name))
                if transaction is not None:
                    return str(transaction.state.value)
        return "unknown"

    def active(self) -> list[NodeName]:
        """The nodes that are active coordinators."""
        return [
            node.name
            for node in self.world.nodes.values()
            for sequencer in (node.core.sequencers.loaded.values() if node.core is not None else ())
            if sequencer.coordinator.state is CoordinatorState.ACTIVE
        ]


def _at_line(number: int, do: Callable[[str], object], text: str) -> None:
    """Add the line number of the script to errors."""
    try:
        do(text)
    except ScriptError as error:
        raise ScriptError(f"line {number}: {text}: {error}") from error


def _require_network(number: int, text: str) -> None:
    try:
        parse_network(text)
    except ScriptError as error:
        raise ScriptError(f"line {number}: {error}") from error


# Commands.


def _submit(run: Run, name: str, at: str, options: str | None) -> None:
    words = (options or "").split()
    unknown = [word for word in words[::2] if word not in ("as", "after", "key", "with", "mode")]
    if unknown or len(words) % 2:
        raise ScriptError("cannot be understood: submit knows as, after, key, with, mode, and a value for each")
    pairs = dict(zip(words[::2], words[1::2], strict=True))
    node = run.node(at)
    if run.world.nodes[node].core is None:
        raise ScriptError(f"{node} is down")
    depends_on = tuple(run.intent(other) for other in pairs["after"].split("+")) if "after" in pairs else ()
    parties = tuple(Party(party) for party in pairs["with"].split("+")) if "with" in pairs else ()
    payload = pairs.get("as", "spend").encode()
    sender = Party(f"{name.partition('-')[0].lower()}@{node}")
    modes = {mode.value: mode for mode in SubmitMode}
    mode = modes.get(pairs.get("mode", SubmitMode.AUTO.value))
    if mode is None:
        raise ScriptError(f"cannot be understood: mode is one of {', '.join(modes)}, not {pairs['mode']}")
    key = pairs.get("key", "")
    run.intent(name)
    address = run.contract.address
    intent = Intent(
        drawn_id(name, sender, address), address, sender, payload, depends_on, parties, key, mode, nonce_of(name)
    )
    run.intents[name] = (node, intent)
    run.world.payloads[intent.id] = payload
    run.world.submit(node, run.contract.address, IntentSubmitted(name, intent))


def _run(run: Run, amount: str, unit: str) -> None:
    run.world.run_until(run.world.now_ms + int(float(amount) * (1000 if unit == "s" else 1)))


def _until(run: Run, condition: str) -> None:
    names = condition.split()
    if len(names) < 2:
        raise ScriptError("until what? An intent and its state, or `active` and a node")
    is_done: Callable[[], bool]
    if names[-1] in (Outcome.CONFIRMED.value, Outcome.REVERTED.value):
        outcome = names[-1]
        is_done = lambda: all(run.is_reported(name, outcome) for name in names[:-1])  # noqa: E731
    elif names[0] == "active":
        is_done = lambda: run.active() == [names[1]]  # noqa: E731
    else:
        is_done = lambda: all(run.sender_state(name) == names[-1] for name in names[:-1])  # noqa: E731
    if not run.world.run_until(run.world.now_ms + DEFAULT_LIMIT_MS, is_done):
        states = ", ".join(f"{name} {run.sender_state(name)}" for name in names[:-1])
        lines = "\n".join(show(happening) for happening in run.transcript.happenings[-60:])
        raise ScriptError(f"{condition!r} did not happen in {DEFAULT_LIMIT_MS} ms: {states}\n{lines}")


def _until_coordinates(run: Run, name: str, state: str) -> None:
    intent = run.intent(name)

    def is_done() -> bool:
        return any(
            intent in sequencer.coordinator.transactions
            and sequencer.coordinator.transactions[intent].state.value == state
            for node in run.world.nodes.values()
            for sequencer in (node.core.sequencers.loaded.values() if node.core is not None else ())
        )

    if not run.world.run_until(run.world.now_ms + DEFAULT_LIMIT_MS, is_done):
        raise ScriptError(f"no coordinator has {name} in {state}")


def _mine(run: Run, count: str | None, empty: str | None) -> None:
    for _ in range(int(count or 1)):
        run.world.chain.mine(is_empty=empty is not None)
    run.world.run_until(run.world.now_ms + run.world.latency_ms)


def _wait_for_chain(run: Run, seconds: str) -> None:
    run.world.chain.let_time_pass(int(seconds))
    run.world.run_until(run.world.now_ms + run.world.latency_ms)


def _reorganise(run: Run, count: str, losing: str | None) -> None:
    if int(count) > run.world.ledger.height:
        raise ScriptError(f"there are only {run.world.ledger.height} blocks")
    run.world.chain.reorganise(int(count), keeps_transactions=losing is None)


def _start(run: Run, name: str) -> None:
    if run.world.nodes[run.node(name)].core is not None:
        raise ScriptError(f"{name} is running")
    run.world.start(run.node(name))


def _crash(run: Run, name: str) -> None:
    run.transcript.forget(run.node(name))
    run.world.crash(run.node(name))


def _cut(run: Run, one: str, way: str, other: str) -> None:
    run.world.wires.cut_way(run.node(one), run.node(other))
    if way == "and":
        run.world.wires.cut_way(run.node(other), run.node(one))


def _isolate(run: Run, name: str) -> None:
    for other in run.world.nodes:
        if other != name:
            _cut(run, name, "and", other)


def _hold(run: Run, kind: str, source: str, target: str) -> None:
    run.world.wires.holds.append(HoldRule(kind, NodeName(source), NodeName(target)))


def _duplicate(run: Run, kind: str, source: str, target: str) -> None:
    run.world.wires.duplicates.append(MessageRule(kind, NodeName(source), NodeName(target)))


def _alter(run: Run, kind: str, source: str, target: str) -> None:
    _lie(run, Lie.ALTERED, kind, source, target)


def _invent(run: Run, kind: str, source: str, target: str) -> None:
    _lie(run, Lie.INVENTED, kind, source, target)


def _lie(run: Run, lie: Lie, kind: str, source: str, target: str) -> None:
    if not can_be_told(kind, lie):
        raise ScriptError(f"a message that is {lie.value} is one of {tellable(lie)}, not {kind}")
    run.world.wires.forgeries.append(Forgery(kind, NodeName(source), NodeName(target), lie))


def _release(run: Run, backwards: str | None, twice: str | None) -> None:
    run.world.wires.release(is_reversed=backwards is not None, is_twice=twice is not None)


def _claim(run: Run, name: str, state: str, successor: str | None) -> None:
    known = {choice.value: choice for choice in CoordinatorState}
    if state not in known:
        raise ScriptError(f"a coordinator is one of {', '.join(known)}, not {state}")
    if run.world.nodes[run.node(name)].core is None:
        raise ScriptError(f"{name} is down")
    run.world.wires.forge_heartbeat(run.node(name), known[state], run.node(successor) if successor else None)


def _ask_to_yield(run: Run, name: str, other: str) -> None:
    run.world.wires.forge_request(run.node(name), run.node(other), HandoverReason.TRIED)


def _domain(run: Run, name: str, word: str) -> None:
    run.world.hang_domain(run.node(name), word == "hangs")


def _mining(run: Run, word: str) -> None:
    run.world.chain.is_mining = word == "start"
    if run.world.chain.is_mining and run.world.ledger.has_work():
        run.world.chain.mine()


def _writes(run: Run, word: str, name: str) -> None:
    run.world.nodes[run.node(name)].disk.is_failing = word == "fail"


def _cancel(run: Run, name: str) -> None:
    node, intent = run.submitted(name)
    run.world.submit(node, run.contract.address, CancelRequested(f"cancel {name}", intent))


def _commit(run: Run, name: str) -> None:
    intent = run.intent(name)
    if intent not in run.world.prepared:
        raise ScriptError(f"{name} was not reported as prepared")
    run.world.chain.commit_prepared(intent)


def _resume(run: Run, name: str) -> None:
    node, intent = run.submitted(name)
    run.world.submit(node, run.contract.address, ResumeRequested(f"resume {name}", intent))


def _let(run: Run, name: str, word: str) -> None:
    if name not in run.intents:
        raise ScriptError(f"{name} was not submitted")
    run.world.payloads[run.intent(name)] = word.encode()


def _explain(run: Run, name: str) -> None:
    node, intent = run.submitted(name)
    core = run.world.nodes[node].core
    assert core is not None, "the node of an intent that was found runs"
    explanation = core.explain(intent)
    waits = f", waits for {explanation.waits_for}" if explanation.waits_for else ""
    who = f" ({', '.join(explanation.who)})" if explanation.who else ""
    detail = f"; {explanation.detail}" if explanation.detail else ""
    run.transcript.noted(run.world, f"{name} is {explanation.state}{waits}{who}{detail}")


COMMANDS: tuple[tuple[str, Callable[..., None]], ...] = (
    (r"submit (\S+) at (\S+)(?: (.+))?", _submit),
    (r"run (\d+(?:\.\d+)?) ?(s|ms)", _run),
    (r"until coordinator has (\S+) in (\S+)", _until_coordinates),
    (r"until (.+)", _until),
    (r"mine(?: (\d+))?( empty)?", _mine),
    (r"wait (\d+) s of chain time", _wait_for_chain),
    (r"reorganise (\d+)( and lose what was in them)?", _reorganise),
    (r"(stop|start) mining", _mining),
    (r"crash (\S+)", _crash),
    (r"start (\S+)", _start),
    (r"the domain of (\S+) (hangs|goes on)", _domain),
    (r"hang (\S+)", lambda run, name: run.world.hang(run.node(name), True)),
    (r"go on (\S+)", lambda run, name: run.world.hang(run.node(name), False)),
    (r"stop (\S+)", lambda run, name: run.world.stop(run.node(name))),
    (r"cut (\S+) (and|to) (\S+)", _cut),
    (r"isolate (\S+)", _isolate),
    (r"heal", lambda run: run.world.wires.heal()),
    (r"lag (\S+)", lambda run, name: run.world.lag(run.node(name), True)),
    (r"catch up (\S+)", lambda run, name: run.world.lag(run.node(name), False)),
    (r"take the ledger from (\S+)", lambda run, name: run.world.set_ledger(run.node(name), False)),
    (r"give the ledger back to (\S+)", lambda run, name: run.world.set_ledger(run.node(name), True)),
    (r"hold (\w+) from (\S+) to (\S+)", _hold),
    (r"duplicate (\w+) from (\S+) to (\S+)", _duplicate),
    (r"alter the next (\w+) from (\S+) to (\S+)", _alter),
    (r"invent an intent in the next (\w+) from (\S+) to (\S+)", _invent),
    (r"(\S+) claims to be (\w+)(?:, next (\S+))?", _claim),
    (r"(\S+) asks (\S+) to yield", _ask_to_yield),
    (r"release( backwards)?( twice)?", _release),
    (r"(fail|mend) writes of (\S+)", _writes),
    (r"cancel (\S+)", _cancel),
    (r"resume (\S+)", _resume),
    (r"commit (\S+)", _commit),
    (r"let (\S+) (\S+)", _let),
    (r"explain (\S+)", _explain),
)


# Expectations: each returns what was found instead, or None.


def _expect_outcome(run: Run, names: str, outcome: str, reason: str | None) -> str | None:
    for name in names.split():
        receipts = run.world.receipts.get(run.intent(name), [])
        found = [f"{receipt.outcome.value} {receipt.reason}".strip() for receipt in receipts]
        wanted = f"{outcome} {reason}" if reason else outcome
        if len(found) != 1 or (found[0] != wanted if reason else not found[0].startswith(outcome)):
            return f"{name} is {found or run.sender_state(name)}"
    return None


def _expect_once(run: Run, names: str) -> str | None:
    for name in names.split():
        count = sum(intent == run.intent(name) for _, intent, _ in run.world.ledger.commits)
        if count != 1:
            return f"{name} is on the chain {count} times"
    return None


def _expect_count(run: Run, name: str, what: str, count: str) -> str | None:
    intent = run.intent(name)
    counts = {
        "assembled": run.world.assemblies.get(intent, 0),
        "permitted": sum(granted.intent == intent for granted in run.world.permissions),
        "dispatched": sum(
            any(transition.intent == intent for transition in dispatch.round.transitions)
            for dispatch in run.world.dispatches
        ),
    }
    return None if counts[what] == int(count) else f"it was {what} {counts[what]} times"


def _expect_active(run: Run, name: str) -> str | None:
    wanted = [] if name == "nobody" else [name]
    return None if run.active() == wanted else f"active: {', '.join(run.active()) or 'nobody'}"


def _expect_was_active(run: Run, name: str, never: str) -> str | None:
    was = run.node(name) in run.transcript.was_active
    return None if was is (never == "was") else f"{name} {'was' if was else 'was never'} active"


def _expect_was(run: Run, name: str, word: str, state: str) -> str | None:
    """A node's coordinator, or an intent at its sender, was ever in a state."""
    subject = "coordinator" if name in run.world.nodes else name
    was = any(
        one.source and one.text.startswith(f"{subject}: ") and one.text.endswith(f" → {state}")
        for one in run.transcript.happenings
        if subject != "coordinator" or one.source == name
    )
    return None if was is (word == "was") else f"it {'was' if was else 'was never'} {state}"


def _expect_order(run: Run, name: str, other: str) -> str | None:
    ended = [run.world.show(intent) for intent in run.world.receipts]
    if name in ended and other in ended and ended.index(name) < ended.index(other):
        return None
    return f"they ended in this order: {', '.join(ended)}"


def _expect_explained(run: Run, name: str, text: str) -> str | None:
    said = [one.text for one in run.transcript.happenings if one.text.startswith(f"{name} is ") and not one.source]
    return None if any(text in one for one in said) else f"it is explained so: {'; '.join(said) or 'not at all'}"


def _expect_sent(run: Run, source: str, word: str, kind: str, target: str | None) -> str | None:
    words = set(kind.split())
    found = [
        text
        for _, from_, to, text in run.transcript.sent_kinds
        if from_ == source and words <= set(text.split()) and target in (None, to)
    ]
    if word == "sends":
        return None if found else "it did not"
    return f"it did: {found[0]}" if found else None


def _expect_answer(run: Run, request: str, answer: str) -> str | None:
    replies = run.world.replies.get(request, [])
    found = [shown_reply(reply) for reply in replies]
    return None if any(one.startswith(answer) for one in found) else f"answers: {found or 'none'}"


def _expect_rounds(run: Run, count: str) -> str | None:
    return None if len(run.world.dispatches) == int(count) else f"{len(run.world.dispatches)} rounds were dispatched"


def _expect_state(run: Run, name: str, state: str) -> str | None:
    return None if run.sender_state(name) == state else f"it is {run.sender_state(name)}"


EXPECTATIONS: tuple[tuple[str, Callable[..., str | None]], ...] = (
    (r"([\w\- ]+?) (confirmed|reverted)(?: because (.+))?", _expect_outcome),
    (r"([\w\- ]+?) on the chain once", _expect_once),
    (r"(\S+) (assembled|permitted|dispatched) (\d+) times?", _expect_count),
    (r"active at the end: (\S+)", _expect_active),
    (r"(\S+) (was|was never) active", _expect_was_active),
    (r"(\S+) (was|was never) (\w+)", _expect_was),
    (r"(\S+) ends before (\S+)", _expect_order),
    (r"(\S+) is explained by: (.+)", _expect_explained),
    (r"(\S+) (sends|never sends) (.+?)(?: to (\S+))?", _expect_sent),
    (r"user of (.+?) is told (.+)", _expect_answer),
    (r"(\d+) rounds? dispatched", _expect_rounds),
    (r"(\S+) stays (\w+)", _expect_state),
)
