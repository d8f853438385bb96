"""A token whose rules are a private Solidity contract: an allow-list and a daily limit.

    rota demo --serve          # in another terminal: three nodes
    python guard.py
    python guard.py URL URL URL

The first node is the notary's, the second and third those of holders. The third is no member of the hook's group.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable

from rota.client import Client, ClientError, Failed, GroupContract, Token
from rota.ledger.artifacts import load_artifact

NODES = ("http://127.0.0.1:31548", "http://127.0.0.1:31648", "http://127.0.0.1:31748")
# contracts/TokenGuard.sol as the compiler made it.
GUARD = load_artifact("TokenGuard")
DAILY_LIMIT, ISSUED, PAID = 50, 100, 30


async def guard(bank: Client, alice: Client, bob: Client) -> None:
    """From the group's creation to the next day."""
    the_bank, the_payer, the_payee = (
        f"bank@{await bank.name()}",
        f"alice@{await alice.name()}",
        f"bob@{await bob.name()}",
    )
    await alice.create_party("alice")
    await bob.create_party("bob")
    addresses = {party: await bank.address_of(party) for party in (the_bank, the_payer, the_payee)}

    # The hook lives in a group, whose members see every operation of the token, and whose ledger may call the token's.
    configuration = {"externalCallsEnabled": True}
    members = (the_bank, the_payer)
    group = await bank.groups.create(members=members, name="guards", configuration=configuration)
    hook = await group.deploy(GUARD.abi, "0x" + GUARD.bytecode.hex(), [addresses[the_bank], DAILY_LIMIT])
    print(f"{the_bank} has deployed the hook at {hook.address}", flush=True)

    hooks = {"publicAddress": group.address, "privateAddress": hook.address}
    constructor = {"notary": the_bank, "name": "Guarded", "notaryMode": "hooks", "options": {"hooks": hooks}}
    deployed = await (await bank.deploy("noto", constructor))
    token = bank.tokens.at(str(deployed.contract_address))
    print(f"{the_bank} has deployed a token with this hook at {token.address}", flush=True)

    await (await hook.send("setToken", [token.address]))
    await attempt(f"{the_bank} mints {ISSUED} for {the_payer}", token.mint(the_payer, ISSUED))
    await allow(hook, addresses[the_payer])
    await attempt(f"{the_bank} mints {ISSUED} for {the_payer}", token.mint(the_payer, ISSUED))

    paying = alice.tokens.at(token.address)
    await attempt(f"{the_payer} pays {PAID} to {the_payee}", paying.transfer(the_payee, PAID))
    await allow(hook, addresses[the_payee])
    await attempt(f"{the_payer} pays {PAID} to {the_payee}", paying.transfer(the_payee, PAID))
    await attempt(f"{the_payer} pays {PAID} again", paying.transfer(the_payee, PAID))
    await (await hook.send("startDay"))
    await attempt(f"{the_payer} pays {PAID} on the next day", paying.transfer(the_payee, PAID))
    await report(bank.tokens.at(token.address), the_payer, the_payee)


async def allow(hook: GroupContract, account: str) -> None:
    """The notary puts an account on the list."""
    await (await hook.send("list", [account, True]))


async def attempt(what: str, submitting: Awaitable[Awaitable[object]]) -> None:
    """Do it, or tell in the hook's words why it is not done."""
    try:
        await (await submitting)
    except Failed as failed:
        print(f"{what}: {failed}", flush=True)
    else:
        print(f"{what}: done", flush=True)


async def report(token: Token, *accounts: str) -> None:
    """The balances in the end."""
    for account in accounts:
        balance = await token.balance_of(account)
        print(f"{account} has {balance.total_balance}", flush=True)


async def main(nodes: list[str]) -> int:
    """Exit 0: all of it happened. 1: something did not, and why."""
    try:
        async with (
            Client(nodes[0], sender="bank") as bank,
            Client(nodes[1], sender="alice") as alice,
            Client(nodes[2], sender="bob") as bob,
        ):
            await guard(bank, alice, bob)
    except ClientError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Issue a token with an allow-list and a daily limit.")
    parser.add_argument("nodes", nargs="*", default=NODES, help="the notary's node, and those of two holders")
    given = parser.parse_args()
    if len(given.nodes) != len(NODES):
        parser.error(f"nodes: must be {len(NODES)} URLs, not {len(given.nodes)}")
    sys.exit(asyncio.run(main(list(given.nodes))))
