"""A bank issues a private token, and its customers pay each other with it. Each has a node of its own.

    rota demo --serve          # in another terminal: three nodes
    python issue.py
    python issue.py URL URL URL

Nobody but the payer, the payee and the bank learns who paid whom and how much; the ledger sees hashes.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from rota.client import BalanceUnknown, Client, ClientError, Failed

NODES = ("http://127.0.0.1:31548", "http://127.0.0.1:31648", "http://127.0.0.1:31748")
ISSUED, PAID = 1_000, 250


async def issue(bank: Client, alice: Client, bob: Client) -> None:
    """From the token's deployment to a payment that goes too far."""
    the_bank, the_payer, the_payee = (
        f"bank@{await bank.name()}",
        f"alice@{await alice.name()}",
        f"bob@{await bob.name()}",
    )

    # Only known parties are paid, so that a misspelt name is refused: these nodes have their parties from now on.
    await alice.create_party("alice")
    await bob.create_party("bob")

    # The notary endorses every transaction of its token. All nodes know the token when this is done.
    token = await bank.tokens.deploy(name="Example Coin", symbol="EXC", notary=the_bank)
    print(f"{the_bank} has deployed {await token.name()} at {token.address}", flush=True)

    minted = await token.mint(the_payer, ISSUED)
    receipt = await minted
    print(f"{the_bank} has issued {ISSUED} to {the_payer}, in block {receipt.block_number}", flush=True)

    paid = await alice.tokens.at(token.address).transfer(the_payee, PAID, data=b"invoice 7".hex())
    await paid
    print(f"{the_payer} has paid {PAID} to {the_payee}", flush=True)

    # The payee's node has the receipt when it holds the coin that belongs to it: now the coin can be spent. The bank's
    # has it when it has seen the block.
    await bob.transaction(paid.id)
    await bank.transaction(paid.id)
    for who, client, account in (
        (the_payer, alice, the_payer),
        (the_payee, bob, the_payee),
        (the_bank, bank, the_payer),
        (the_bank, bank, the_payee),
        (the_payee, bob, the_payer),
    ):
        try:
            balance = await client.tokens.at(token.address).balance_of(account)
            print(f"{who} sees that {account} has {balance.total_balance}", flush=True)
        except BalanceUnknown as unknown:
            print(f"{who} does not see what {account} has: {' and '.join(unknown.known_by)} would", flush=True)

    try:
        await (await bob.tokens.at(token.address).transfer(the_payer, PAID + 1))
    except Failed as failed:
        print(f"{the_payee} cannot pay {PAID + 1}: {failed}", flush=True)


async def main(nodes: list[str]) -> int:
    """Exit 0: all of it happened. 1: something did not, and why."""
    try:
        async with (
            Client(nodes[0], sender="bank") as bank,
            Client(nodes[1], sender="alice") as alice,
            Client(nodes[2], sender="bob") as bob,
        ):
            await issue(bank, alice, bob)
    except ClientError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Issue a private token, and pay with it.")
    parser.add_argument("nodes", nargs="*", default=NODES, help="the bank's node, the payer's, the payee's")
    given = parser.parse_args()
    if len(given.nodes) != len(NODES):
        parser.error(f"nodes: must be {len(NODES)} URLs, not {len(given.nodes)}")
    sys.exit(asyncio.run(main(list(given.nodes))))
