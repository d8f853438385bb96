"""The network of a script: `nodes A B C, leaders B C, rotation strict, range 4 …`."""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace
from typing import NamedTuple, TypeVar

from rota.model.config import Config
from rota.model.types import Contract, ContractAddress, Mode, NodeName, Rotation
from rota.sequencer.selection import ranking
from rota.sim.world import Recorder, World

Choice = TypeVar("Choice", Mode, Rotation)


class ScriptError(Exception):
    """The script cannot be run, or one of its expectations is not met."""


NETWORK_WORDS = (
    "nodes",
    "members",
    "leaders",
    "rotation",
    "mode",
    "range",
    "endorsers",
    "threshold",
    "confirmations",
    "set",
)


class Network(NamedTuple):
    """A parsed network line."""

    nodes: tuple[NodeName, ...]
    members: tuple[NodeName, ...]
    leaders: tuple[NodeName, ...]
    endorsers: tuple[NodeName, ...]
    threshold: int
    mode: Mode
    rotation: Rotation
    range_size: int
    config: Config


def parse_network(text: str) -> Network:
    """Parse `nodes A B C, leaders B C, rotation strict, range 4 …`; omitted parts have defaults. `ScriptError`."""
    options: dict[str, list[str]] = {}
    for part in text.split(","):
        key, *values = part.split() or [""]
        if not values:
            raise ScriptError(f"the network cannot be built: {key or 'nothing'!r} has no value")
        options[key] = values
    unknown = sorted(set(options) - set(NETWORK_WORDS))
    if unknown or "nodes" not in options:
        raise ScriptError(f"network: needs nodes, and knows no {', '.join(unknown) or 'other word'}")
    nodes = tuple(NodeName(name) for name in options["nodes"])

    def names(key: str, default: tuple[NodeName, ...]) -> tuple[NodeName, ...]:
        found = tuple(NodeName(name) for name in options.get(key, default))
        unknown = [name for name in found if name not in nodes]
        if unknown:
            raise ScriptError(f"the network cannot be built: {key}: there is no node {unknown[0]}")
        return found

    members = names("members", nodes)
    endorsers = names("endorsers", members)
    mode = _one_of(Mode, "mode", options.get("mode", ["ring"]))
    leaders = names("leaders", ())
    if mode is Mode.STATIC and not leaders:
        raise ScriptError("the network cannot be built: it lacks 'leaders', which static mode needs")
    return Network(
        nodes,
        members,
        leaders,
        endorsers,
        _number("threshold", options.get("threshold", [str(len(endorsers))])[0]),
        mode,
        _one_of(Rotation, "rotation", options.get("rotation", ["sticky"])),
        _number("range", options.get("range", ["100"])[0]),
        replace(
            _config(options.get("set", [])),
            confirmations=_number("confirmations", options.get("confirmations", ["0"])[0]),
        ),
    )


def build_world(network: str, recorder: Recorder) -> tuple[World, Contract]:
    """The world of a script's network line, and its contract."""
    said = parse_network(network)
    contract = Contract(
        ContractAddress("0x" + "00" * 20),
        said.leaders if said.mode is Mode.STATIC else said.members,
        said.endorsers,
        said.threshold,
        said.mode,
        said.rotation,
        said.range_size,
    )
    contract = _with_leaders(contract, list(said.leaders) if said.mode is Mode.RING else [])
    return World(said.nodes, (contract,), said.config, recorder), contract


def _one_of(choices: type[Choice], key: str, values: list[str]) -> Choice:
    for choice in choices:
        if choice.value == values[0]:
            return choice
    known = ", ".join(choice.value for choice in choices)
    raise ScriptError(f"the network cannot be built: {key} is one of {known}, not {values[0]}")


def _number(key: str, text: str) -> int:
    if not text.isdecimal():
        raise ScriptError(f"the network cannot be built: {key}: {text or 'nothing'} is no number")
    return int(text)


def _config(pairs: list[str]) -> Config:
    known = [setting.name for setting in fields(Config)]
    settings: dict[str, int] = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        if key not in known:
            raise ScriptError(f"the network cannot be built: there is no setting {key}; there are {', '.join(known)}")
        settings[key] = _number(key, value)
    try:
        return Config(**settings)
    except ValueError as error:
        raise ScriptError(f"the network cannot be built: {error}") from error


def _with_leaders(contract: Contract, leaders: list[NodeName]) -> Contract:
    """The contract at the first address at which these nodes lead the ranges 0, 1, 2 …"""
    for attempt in range(100_000):
        address = ContractAddress("0x" + hashlib.sha256(str(attempt).encode()).hexdigest()[:40])
        tried = Contract(
            address,
            contract.committee,
            contract.endorsers,
            contract.threshold,
            contract.mode,
            contract.rotation,
            contract.range_size,
        )
        if all(ranking(tried, index, leader)[0] == leader for index, leader in enumerate(leaders)):
            return tried
    raise ScriptError(f"network: found no contract that {leaders} lead")
