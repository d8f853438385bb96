"""The folder of a node: its keys, its certificate, its credentials, its plug-ins."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from rota.doctor.case import Case
from rota.doctor.findings import Finding, failed, ok, skipped, warning
from rota.domains.base import Rejected
from rota.engine.development_keys import rests_on_development_keys
from rota.host import AnyDomain, load_domains
from rota.keys.certificates import Certificate
from rota.keys.files import KeyFileError, NotThere
from rota.keys.names import REGISTRAR, SUBMITTER
from rota.keys.node_keys import TRANSPORT, WALLET, open_signer
from rota.keys.transport_files import TransportFolder
from rota.server.configuration import CHAIN
from rota.server.credentials_file import read_credentials
from rota.service.automation.loading import CannotLoad, load_triggers
from rota.service.registry.expiry import DAY_S, NOTICES_S

CERTIFICATE: Final = "certificate"
KEYS: Final = "keys"
PROVING: Final = "proving keys"


async def check_keys(case: Case) -> list[Finding]:
    """The wallet is there, private, and opens with the password."""
    section = case.configuration.node
    wallet = section.keys / WALLET
    if not wallet.exists():
        mend = f"Restore it from its words with `rota init {case.folder} --node {case.name} --words-file FILE`."
        return [failed(KEYS, f"{wallet}: there is no such file", mend)]
    try:
        password = case.means.password_for(section)
    except KeyFileError as error:
        return [failed(KEYS, str(error), "Correct node.password_file, or give --password-file.")]
    if password is None:
        return [skipped(KEYS, "there is no password: give --password-file, or set ROTA_NODE_PASSWORD")]
    try:
        case.signer = open_signer(section.keys, password)
    except KeyFileError as error:
        return [failed(KEYS, str(error), "Give the password that the keys were made with, or restore the files.")]
    addresses = f"submitter {case.signer.address_of(SUBMITTER)}, registrar {case.signer.address_of(REGISTRAR)}"
    return [ok(KEYS, addresses)]


async def check_certificate(case: Case) -> list[Finding]:
    """It is this node's, its key is with it, and peers take it today."""
    try:
        case.certificate = TransportFolder(case.configuration.node.keys / TRANSPORT, case.name).current().certificate
    except NotThere as error:
        again = f"`rota init {case.folder} --node {case.name}` makes another"
        return [failed(CERTIFICATE, str(error), f"{again}; then {_registering(case)}.")]
    except (KeyFileError, ValueError) as error:
        mend = f"Restore it from a backup; or move it away, have `rota init` make another, then {_registering(case)}."
        return [failed(CERTIFICATE, str(error), mend)]
    return [_validity(case, case.certificate)]


def _validity(case: Case, certificate: Certificate) -> Finding:
    now_s = int(case.means.now_s())
    left_s = certificate.valid_until_s - now_s
    until = f"{datetime.fromtimestamp(certificate.valid_until_s, UTC):%Y-%m-%d %H:%M} UTC"
    rotate = f"`rota keys rotate-certificate {case.folder}` makes another without an outage."
    if now_s < certificate.valid_from_s:
        begins = f"{datetime.fromtimestamp(certificate.valid_from_s, UTC):%Y-%m-%d %H:%M} UTC"
        return failed(CERTIFICATE, f"it is not valid before {begins}", f"Set this machine's clock, or: {rotate}")
    if left_s <= 0:
        return failed(CERTIFICATE, f"it has ended on {until}: peers refuse this node", rotate[0].upper() + rotate[1:])
    if left_s <= NOTICES_S[0]:
        renews = case.configuration.transport.renews_certificate and case.configuration.transport.registry == CHAIN
        first = "The node renews it by itself while it runs and the registrar has funds; or: " if renews else ""
        return warning(CERTIFICATE, f"it ends in {left_s // DAY_S} days, on {until}", first + rotate)
    return ok(CERTIFICATE, f"{certificate.fingerprint.hex()[:16]}…, valid until {until}")


def _registering(case: Case) -> str:
    if case.configuration.transport.registry == CHAIN:
        return f"`rota ledger register {case.folder}` tells the network of it"
    return f"put its fingerprint into {case.configuration.transport.registry}"


async def check_credentials(case: Case) -> list[Finding]:
    """The file of the credentials exists and is valid."""
    path = case.configuration.rpc.credentials_file
    if path is None:
        return [ok("credentials", "none: everybody on this machine may do everything")]
    try:
        found = read_credentials(path)
    except FileNotFoundError:
        add = f"`rota credentials add {case.folder} NAME --role read` makes it."
        return [failed("credentials", f"{path}: there is no such file", add)]
    except (OSError, ValueError) as error:
        return [failed("credentials", str(error), f"Correct {path}, or write it anew with `rota credentials`.")]
    return [ok("credentials", f"{path.name}: {len(found)} who may call")]


def _proving_keys(domains: Mapping[str, AnyDomain], is_allowed: bool) -> list[Finding]:
    """Whether tokens may be deployed whose proofs can be forged."""
    on_them = sorted(name for name, each in domains.items() if any(map(rests_on_development_keys, each.ledgers)))
    if not on_them:
        return []
    names = ", ".join(on_them)
    if not is_allowed:
        return [ok(PROVING, f"{names}: no token is deployed, because its proofs would rest on the development keys")]
    mend = "Remove proving.allow_development_keys where tokens are of value; docs/zeto.md says what a ceremony takes."
    return [warning(PROVING, f"{names}: tokens are deployed whose proofs the makers of the keys can forge", mend)]


async def check_plug_ins(case: Case) -> list[Finding]:
    """Domains and triggers that the configuration names can be loaded."""
    automation = case.configuration.automation
    findings = []
    try:
        domains = load_domains(case.configuration.domains)
        findings.append(ok("domains", ", ".join(sorted(domains))))
        findings += _proving_keys(domains, case.configuration.proving.allow_development_keys)
    except Rejected as flaw:
        findings.append(failed("domains", f"domains.{flaw}", f"Correct [domains] in {case.file}."))
    try:
        triggers = load_triggers(automation.load, automation.settings, case.configuration.triggers, automation.paused)
        findings.append(ok("automation", ", ".join(each.name for each in triggers)))
    except CannotLoad as flaw:
        findings.append(failed("automation", str(flaw), f"Correct [automation] or [triggers] in {case.file}."))
    return findings
