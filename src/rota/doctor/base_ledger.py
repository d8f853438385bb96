"""The base ledger: the right chain, alive, with our contracts; and what those who pay for it have left."""

from __future__ import annotations

import asyncio
import time
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from rota.chain.submitters import AccountChoice
from rota.doctor.accounts import accounts_of
from rota.doctor.case import Case
from rota.doctor.findings import Finding, failed, ok, skipped, warning
from rota.keys.files import KeyFileError
from rota.keys.names import REGISTRAR, SUBMITTER
from rota.ledger.checking import CHEAPEST_ROUND_GAS, ExpectedContract, check_chain, check_contract
from rota.ledger.client import Call, RpcClient, RpcRefused
from rota.ledger.embedded.settings import WEI_PER_ETHER
from rota.ledger.finality import WrongConfirmations, confirmations_for, kind_of
from rota.ledger.hexadecimal import read_quantity
from rota.ledger.transports import RpcFailure
from rota.model.types import ContractAddress
from rota.ports import Signer, Unavailable

LEDGER: Final = "ledger"
BLOCKS: Final = "blocks"
CONFIRMATIONS: Final = "confirmations"
CLOCK: Final = "clock"
NO_LEDGER: Final = "the ledger cannot be asked (see ledger)"
ATTEMPTS_MAX: Final = 2
LOOK_S: Final = 0.25
QUIET_S: Final = 600
DATE_TIMEOUT_S: Final = 5.0
# A date has whole seconds, and took some time to come here.
OFF_BY_GOOD_S: Final = 5
OFF_BY_MAX_S: Final = 60
# Nodes of a chain accept a block whose time is a little later than their own clock.
BLOCK_AHEAD_MAX_S: Final = 15
REGISTRATION_GAS: Final = 100_000
ROUNDS_GOOD: Final = 100
REGISTRATIONS_GOOD: Final = 10
NAMED_MAX: Final = 8


async def check_ledger(case: Case) -> list[Finding]:
    """It answers, is an Ethereum node, and is on the chain that is configured."""
    client = case.new_ledger_client()
    chain_id = case.configuration.ledger.chain_id
    try:
        flaw = await check_chain(client, chain_id)
        if flaw is not None:
            return [failed(LEDGER, f"{flaw.setting}: {flaw.found}", flaw.mend)]
        case.ledger = client
    finally:
        if case.ledger is None:
            await client.close()
    return [ok(LEDGER, f"chain {chain_id} at {client.place}")]


async def check_confirmations(case: Case) -> list[Finding]:
    """How many blocks make one final, by the configuration and by what the chain is."""
    if case.ledger is None:
        return [skipped(CONFIRMATIONS, NO_LEDGER)]
    ledger = case.configuration.ledger
    kind = await kind_of(case.ledger, ledger.chain_id)
    right = f"Leave ledger.confirmations out, or set it to {kind.confirmations}."
    try:
        used = confirmations_for(kind, ledger.confirmations, ledger.accept_lost_blocks)
    except WrongConfirmations as flaw:
        return [failed(CONFIRMATIONS, str(flaw), right)]
    origin = "as the chain is" if ledger.confirmations is None else "as set"
    found = f"{used}, {origin}: {kind.name}"
    if used < kind.confirmations:
        return [warning(CONFIRMATIONS, f"{found}, for which {kind.confirmations} would be right", right)]
    return [ok(CONFIRMATIONS, found)]


async def check_contracts(case: Case) -> list[Finding]:
    """The contracts that the configuration names are there, and are of this version."""
    ledger = case.configuration.ledger
    named = (("Factory", "ledger.factory", ledger.factory), ("Registry", "ledger.registry", ledger.registry))
    findings = []
    for artifact, setting, address in named:
        if address is None:
            findings.append(skipped(setting, "is not set"))
        elif setting in case.wrong:
            findings.append(skipped(setting, "is wrong (see configuration)"))
        elif case.ledger is None:
            findings.append(skipped(setting, NO_LEDGER))
        else:
            findings.append(await _contract(case, case.ledger, ExpectedContract(setting, artifact, address)))
    return findings


async def _contract(case: Case, client: RpcClient, expected: ExpectedContract) -> Finding:
    flaw = await check_contract(client, case.configuration.ledger.chain_id, expected)
    if flaw is not None:
        return failed(expected.setting, flaw.found, flaw.mend)
    return ok(expected.setting, f"{expected.artifact} at {expected.address}")


# Its blocks, and its time.


async def check_blocks(case: Case) -> list[Finding]:
    """The node has caught up with its chain, and blocks come."""
    if case.ledger is None:
        return [skipped(BLOCKS, NO_LEDGER)]
    first = await _latest(case.ledger)
    if first.is_behind:
        mend = "Wait until it has caught up, or name another node in ledger.url."
        return [warning(BLOCKS, f"the Ethereum node is still catching up, at block {first.height:,}", mend)]
    latest, deadline_s = first, time.monotonic() + case.means.block_wait_s
    while latest.height == first.height and time.monotonic() < deadline_s:
        await asyncio.sleep(LOOK_S)
        latest = await _latest(case.ledger)
    age_s = max(0, int(case.means.now_s()) - latest.time_s)
    if latest.height != first.height:
        return [ok(BLOCKS, f"they come: block {latest.height:,}")]
    found = f"block {latest.height:,} is the latest, {age_s} s old"
    if age_s > QUIET_S:
        mend = "See whether the chain has stopped; a chain for development makes blocks only for transactions."
        return [warning(BLOCKS, found, mend)]
    return [ok(BLOCKS, found)]


class _Latest(NamedTuple):
    """The latest block, and whether its node knows of later ones that it lacks."""

    height: int
    time_s: int
    is_behind: bool


async def _latest(client: RpcClient) -> _Latest:
    calls = (Call("eth_getBlockByNumber", ("latest", False)), Call("eth_syncing"))
    block, syncing = (await client.call_together(*calls, attempts_max=ATTEMPTS_MAX)).answers
    if isinstance(block, RpcFailure):
        raise RpcRefused(block)
    if not isinstance(block, dict):
        raise Unavailable("the Ethereum node has no latest block")
    height, time_s = read_quantity(block.get("number")), read_quantity(block.get("timestamp"))
    # A node that has caught up returns false; one without the method, an error.
    return _Latest(height, time_s, isinstance(syncing, dict))


async def check_clock(case: Case) -> list[Finding]:
    """This machine's clock is that of the others.

    Nodes do not exchange the time of day, so it is compared with the ledger's: the date of its server, and the latest
    block, which cannot be of tomorrow.
    """
    if case.ledger is None:
        return [skipped(CLOCK, NO_LEDGER)]
    ahead_s = (await _latest(case.ledger)).time_s - int(case.means.now_s())
    if ahead_s > BLOCK_AHEAD_MAX_S:
        return [_clock_is_off(f"the ledger's latest block is {ahead_s} s ahead of this machine's clock", ahead_s)]
    told_s = await _date_at(case.configuration.ledger.url)
    if told_s is None:
        return [ok(CLOCK, "not behind the ledger's latest block; its server does not tell the time")]
    off_by_s = round(case.means.now_s() - told_s)
    if abs(off_by_s) > OFF_BY_GOOD_S:
        side = "ahead of" if off_by_s > 0 else "behind"
        return [_clock_is_off(f"this machine's clock is {abs(off_by_s)} s {side} the ledger's server", abs(off_by_s))]
    return [ok(CLOCK, "as that of the ledger's server")]


def _clock_is_off(found: str, by_s: int) -> Finding:
    mend = "Have this machine's clock set over the network (timedatectl set-ntp true), or see to the ledger's."
    return failed(CLOCK, found, mend) if by_s > OFF_BY_MAX_S else warning(CLOCK, found, mend)


async def _date_at(url: str) -> float | None:
    """The date in the answers of an HTTP server, also in errors; a WebSocket's is most often one too."""
    parts = urlsplit(url)
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
    timeout = aiohttp.ClientTimeout(total=DATE_TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(urlunsplit(parts._replace(scheme=scheme))) as answer,
        ):
            return parsedate_to_datetime(answer.headers["Date"]).timestamp()
    except (aiohttp.ClientError, TimeoutError, OSError, KeyError, ValueError):
        return None


# Funds.


async def check_funds(case: Case) -> list[Finding]:
    """Those who pay can pay for a while."""
    names = ("funds of the submitter", "funds of the registrar", "funds of the contracts")
    if case.ledger is None or case.signer is None:
        why = NO_LEDGER if case.ledger is None else "its address is not known without the keys (see keys)"
        return [skipped(name, why) for name in names]
    price_wei = read_quantity(await case.ledger.call("eth_gasPrice", attempts_max=ATTEMPTS_MAX))
    submitter, registrar = case.signer.address_of(SUBMITTER), case.signer.address_of(REGISTRAR)
    rounds = await _lasting(case.ledger, submitter, price_wei * CHEAPEST_ROUND_GAS)
    changes = await _lasting(case.ledger, registrar, price_wei * REGISTRATION_GAS)
    is_shared = case.configuration.ledger.accounts is not AccountChoice.BY_CONTRACT
    return [
        _funds(names[0], submitter, rounds, "rounds", ROUNDS_GOOD, is_vital=is_shared),
        _funds(names[1], registrar, changes, "registrations or deployments", REGISTRATIONS_GOOD, is_vital=False),
        await _contract_funds(case, case.ledger, case.signer, price_wei * CHEAPEST_ROUND_GAS),
    ]


async def _contract_funds(case: Case, ledger: RpcClient, signer: Signer, cost_wei: int) -> Finding:
    """Contracts may have accounts of their own."""
    name = "funds of the contracts"
    try:
        found = await accounts_of(case.configuration, signer, ledger)
    except (Unavailable, KeyFileError) as error:
        return skipped(name, f"which contracts have an account of their own is in the database: {error}")
    if not found:
        return ok(name, "no contract has an account of its own")
    short = [each for each in found if each.balance_wei < cost_wei]
    if not short:
        return ok(name, f"{len(found)} contracts have an account of their own, and each can pay for a round")
    named = ", ".join(f"{each.address} of {each.contract}" for each in short[:NAMED_MAX])
    told = f"{len(short)} of {len(found)} accounts of contracts cannot pay for a round: {named}"
    return failed(name, told, "`rota ledger fund FOLDER --contracts` tops them up.")


async def _lasting(client: RpcClient, account: ContractAddress, cost_wei: int) -> tuple[int, int | None]:
    """What an account has, and for how many of these it lasts; without an end where gas costs nothing."""
    balance_wei = read_quantity(await client.call("eth_getBalance", account, "latest", attempts_max=ATTEMPTS_MAX))
    return balance_wei, balance_wei // cost_wei if cost_wei else None


def _funds(
    name: str, account: ContractAddress, funds: tuple[int, int | None], what: str, good: int, *, is_vital: bool
) -> Finding:
    balance_wei, count = funds
    if count is None:
        return ok(name, "gas costs nothing on this chain")
    found = f"{account} has {balance_wei / WEI_PER_ETHER:.6f} ether: for about {count:,} {what} at today's price"
    mend = f"Send funds to {account}; on a chain for development `rota ledger fund` does."
    if count == 0 and is_vital:
        return failed(name, found, mend)
    return ok(name, found) if count >= good else warning(name, found, mend)
