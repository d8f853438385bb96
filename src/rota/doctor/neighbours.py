"""The other nodes: the registered ones, and whether address and certificate of each match its registration."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rota.doctor.base_ledger import ATTEMPTS_MAX, NO_LEDGER
from rota.doctor.case import Case
from rota.doctor.findings import Finding, failed, ok, skipped, warning
from rota.keys.names import REGISTRAR
from rota.ledger.bindings import look_up_node, read_node
from rota.ledger.hexadecimal import data, read_data
from rota.ledger.registry import ChainRegistry, registration_of
from rota.model.types import ContractAddress, NodeName
from rota.ports import Registration, Unavailable
from rota.transport import read_registry
from rota.transport.certificates import look_at_certificate
from rota.transport.endings import Refused

REGISTRATION: Final = "registration"
PEERS: Final = "peers"
ENDPOINT: Final = "endpoint"
PEERS_MAX: Final = 64
LOOKS_AT_ONCE_MAX: Final = 8
LOOK_TIMEOUT_MS: Final = 3_000


async def check_registration(case: Case) -> list[Finding]:
    """The registry has this node, with the certificate that it shows, at the place where it listens."""
    source, ledger = case.configuration.transport.registry, case.configuration.ledger
    if isinstance(source, Path):
        try:
            found = read_registry(source).get(case.name)
        except (OSError, ValueError) as error:
            return [failed(REGISTRATION, f"transport.registry: {error}", f"Correct {source}.")]
        return [_entry(case, found, None, f"Put it into {source}, and into that of every other node.")]
    if why := _why_no_registry(case):
        return [skipped(REGISTRATION, why)]
    assert case.ledger is not None, "it can be asked"
    question = {"to": ledger.registry, "data": data(look_up_node(case.name))}
    node = read_node(read_data(await case.ledger.call("eth_call", question, "latest", attempts_max=ATTEMPTS_MAX)))
    entry = registration_of(node) if node is not None else None
    owner = node.owner if node is not None else None
    return [_entry(case, entry, owner, f"`rota ledger register {case.folder}` puts it right.")]


def _why_no_registry(case: Case) -> str:
    """Why the Registry of the ledger cannot be asked; nothing when it can."""
    if case.ledger is None:
        return NO_LEDGER
    is_known = case.configuration.ledger.registry is not None and "ledger.registry" not in case.wrong
    return "" if is_known else "the Registry is not known (see configuration)"


def _entry(case: Case, found: Registration | None, owner: ContractAddress | None, mend: str) -> Finding:
    endpoint = case.configuration.transport.endpoint
    case.registered_endpoint = found.endpoint if found is not None else None
    if found is None:
        return failed(REGISTRATION, f"{case.name} is not registered: nobody lets it in", mend)
    if owner is not None and case.signer is not None and owner != case.signer.address_of(REGISTRAR):
        choose = "Choose another node.name, or restore the keys that the name was registered with."
        return failed(REGISTRATION, f"the name {case.name} belongs to {owner}, and not to our registrar", choose)
    if case.certificate is not None and case.certificate.fingerprint not in found.fingerprints:
        shown = case.certificate.fingerprint.hex()[:16]
        return failed(REGISTRATION, f"certificate {shown}… is not the one that is registered: peers refuse it", mend)
    if endpoint is not None and "transport.endpoint" not in case.wrong and endpoint != found.endpoint:
        other = f"others look for this node at {found.endpoint}, and transport.endpoint is {endpoint}"
        return failed(REGISTRATION, other, mend)
    return ok(REGISTRATION, f"{case.name} at {found.endpoint}")


async def check_peers(case: Case) -> list[Finding]:
    """Every other node answers at its endpoint with its own certificate."""
    registered = await _registered(case)
    if isinstance(registered, Finding):
        return [registered]
    others = [(name, each) for name, each in registered.items() if name != case.name]
    if not others:
        return [ok(PEERS, "no other node is registered")]
    room = asyncio.Semaphore(LOOKS_AT_ONCE_MAX)

    async def look(name: NodeName, registration: Registration) -> Finding | Unavailable:
        async with room:
            return await _look(case, name, registration)

    looks = await asyncio.gather(*(look(*other) for other in others[:PEERS_MAX]))
    is_alone = all(isinstance(each, Unavailable) for each in looks)
    findings = [
        _absent(name, each, is_alone) if isinstance(each, Unavailable) else each
        for (name, _), each in zip(others, looks, strict=False)
    ]
    if len(others) > PEERS_MAX:
        findings.append(skipped(PEERS, f"{len(others) - PEERS_MAX} more were not looked at"))
    return findings


async def _registered(case: Case) -> Mapping[NodeName, Registration] | Finding:
    """All nodes; or why they are not known."""
    source, ledger = case.configuration.transport.registry, case.configuration.ledger
    if isinstance(source, Path):
        try:
            return read_registry(source)
        except (OSError, ValueError):
            return skipped(PEERS, "the registry cannot be read (see registration)")
    if why := _why_no_registry(case):
        return skipped(PEERS, why)
    assert case.ledger is not None, "it can be asked"
    assert ledger.registry is not None, "it is known"
    registry = ChainRegistry(case.ledger, ledger.registry, ledger.chain_id, ledger.registry_limits)
    await registry.look()
    if registry.trouble:
        mend = "See ledger.registry and ledger.registry_from_height, and what the Ethereum node lets one ask."
        return failed(PEERS, registry.trouble, mend)
    return registry.registrations()


async def _look(case: Case, name: NodeName, registration: Registration) -> Finding | Unavailable:
    now = datetime.fromtimestamp(case.means.now_s(), UTC)
    try:
        seen = await look_at_certificate(name, registration, now, LOOK_TIMEOUT_MS)
    except Unavailable as error:
        return error
    except Refused as error:
        mend = f"Have {name}'s operator run `rota doctor`; or some other machine answers at that address."
        return failed(f"peer {name}", str(error), mend)
    return ok(f"peer {name}", f"{registration.endpoint} shows its certificate, valid until {seen.valid_until:%Y-%m-%d}")


def _absent(name: NodeName, error: Unavailable, is_alone: bool) -> Finding:
    """One that is away is its own operator's affair; when all are, it is this machine that is cut off."""
    if is_alone:
        mend = "No other node can be reached: see to this machine's network, its firewall and its names."
        return failed(f"peer {name}", str(error), mend)
    return warning(f"peer {name}", str(error), f"Ask {name}'s operator whether it runs, and at which address.")


async def check_endpoint(case: Case) -> list[Finding]:
    """Where others look for this node it is found, as far as this machine can tell."""
    transport = case.configuration.transport
    endpoint = transport.endpoint or case.registered_endpoint
    if endpoint is None:
        return [skipped(ENDPOINT, "transport.endpoint is not set, and the node is not registered")]
    if not case.is_running:
        ports = [place.rpartition(":")[2] for place in endpoint.split(",")]
        if transport.listen.rpartition(":")[2] in (*ports, "0") or "transport.listen" in case.wrong:
            return [skipped(ENDPOINT, "the node does not run")]
        found = f"others look for this node at {endpoint}, and it will listen at {transport.listen}"
        mend = (
            "Correct transport.listen, or register the other address; or see that one port is forwarded to the other."
        )
        return [warning(ENDPOINT, found, mend)]
    if case.certificate is None:
        return [skipped(ENDPOINT, "the certificate is wrong (see certificate)")]
    now = datetime.fromtimestamp(case.means.now_s(), UTC)
    wanted = Registration(endpoint, case.certificate.fingerprint)
    try:
        await look_at_certificate(case.name, wanted, now, LOOK_TIMEOUT_MS)
    except Unavailable as error:
        found = f"others look for this node at {endpoint}, and it listens at {transport.listen}: {error}"
        mend = "See to the forwarding of that address to transport.listen; from outside it may be reached all the same."
        return [warning(ENDPOINT, found, mend)]
    except Refused as error:
        mend = "Something else answers there, or the node shows an older certificate still: correct transport.endpoint."
        return [failed(ENDPOINT, str(error), mend)]
    return [ok(ENDPOINT, f"{endpoint} shows this node's certificate")]
