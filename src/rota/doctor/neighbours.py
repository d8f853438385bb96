"""The other nodes: who is registered, and whether each is where its registration says and shows what that says."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rota.doctor.base_ledger import NO_LEDGER
from rota.doctor.case import Case
from rota.doctor.findings import Finding, failed, ok, skipped, warning
from rota.keys.names import REGISTRAR
from rota.ledger.registry import ChainRegistry
from rota.ports import Registration, Unavailable
from rota.transport import read_registry
from rota.transport.certificates import look_at_certificate
from rota.transport.endings import Refused
from rota.types import NodeName

REGISTRATION: Final = "registration"
PEERS: Final = "peers"
ENDPOINT: Final = "endpoint"
PEERS_MAX: Final = 64
LOOKS_AT_ONCE_MAX: Final = 8
LOOK_TIMEOUT_MS: Final = 3_000


async def check_registration(case: Case) -> list[Finding]:
    """The registry can be read and has this node, with the certificate that it shows, at the place where it listens."""
    source = case.configuration.transport.registry
    if isinstance(source, Path):
        try:
            case.registrations = read_registry(source)
        except (OSError, ValueError) as error:
            return [failed(REGISTRATION, f"transport.registry: {error}", f"Correct {source}.")]
        return [_entry(case, f"Put it into {source}, and into that of every other node.")]
    ledger = case.configuration.ledger
    if case.ledger is None or ledger.registry is None or "ledger.registry" in case.wrong:
        why = NO_LEDGER if case.ledger is None else "the Registry is not known (see configuration)"
        return [skipped(REGISTRATION, why)]
    registry = ChainRegistry(case.ledger, ledger.registry, ledger.chain_id, ledger.registry_limits)
    await registry.look()
    if registry.trouble:
        mend = "See ledger.registry and ledger.registry_from_height, and what the Ethereum node lets one ask."
        return [failed(REGISTRATION, registry.trouble, mend)]
    case.registrations, case.owners = registry.registrations(), registry.nodes()
    return [_entry(case, f"`rota ledger register {case.folder}` brings it up to date.")]


def _entry(case: Case, mend: str) -> Finding:
    assert case.registrations is not None, "they were read"
    found = case.registrations.get(case.name)
    endpoint = case.configuration.transport.endpoint
    if found is None:
        return failed(REGISTRATION, f"{case.name} is not among the {len(case.registrations)} registered nodes", mend)
    owner = case.owners.get(case.name)
    if owner is not None and case.signer is not None and owner.owner != case.signer.address_of(REGISTRAR):
        choose = "Choose another node.name, or restore the keys that the name was registered with."
        return failed(REGISTRATION, f"the name {case.name} belongs to {owner.owner}, and not to our registrar", choose)
    if case.certificate is not None and case.certificate.fingerprint not in found.fingerprints:
        shown = case.certificate.fingerprint.hex()[:16]
        return failed(REGISTRATION, f"certificate {shown}… is not the one that is registered: peers refuse it", mend)
    if endpoint is not None and "transport.endpoint" not in case.wrong and endpoint != found.endpoint:
        other = f"others look for this node at {found.endpoint}, and transport.endpoint is {endpoint}"
        return failed(REGISTRATION, other, mend)
    return ok(REGISTRATION, f"{case.name} at {found.endpoint}, one of {len(case.registrations)} nodes")


async def check_peers(case: Case) -> list[Finding]:
    """Every other node answers at its endpoint with its own certificate."""
    if case.registrations is None:
        return [skipped(PEERS, "the registry cannot be read (see registration)")]
    others = [(name, each) for name, each in case.registrations.items() if name != case.name]
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
    endpoint = case.configuration.transport.endpoint
    if endpoint is None:
        return [skipped(ENDPOINT, "transport.endpoint is not set")]
    if not case.is_running or case.certificate is None:
        why = "the node does not run" if not case.is_running else "the certificate is wrong (see certificate)"
        return [skipped(ENDPOINT, why)]
    now = datetime.fromtimestamp(case.means.now_s(), UTC)
    wanted = Registration(endpoint, case.certificate.fingerprint)
    try:
        await look_at_certificate(case.name, wanted, now, LOOK_TIMEOUT_MS)
    except Unavailable as error:
        mend = "See to the forwarding of that address to transport.listen; from outside it may be reached all the same."
        return [warning(ENDPOINT, str(error), mend)]
    except Refused as error:
        mend = "Something else answers there, or the node shows an older certificate still: correct transport.endpoint."
        return [failed(ENDPOINT, str(error), mend)]
    return [ok(ENDPOINT, f"{endpoint} shows this node's certificate")]
