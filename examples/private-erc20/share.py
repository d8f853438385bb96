"""Two members of a privacy group share an ordinary ERC-20 contract that nobody else can see.

    rota demo --serve          # in another terminal: three nodes
    python share.py
    python share.py URL URL URL

The third node is no member. It learns nothing, although it follows the same ledger.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from rota.client import Client, ClientError, Failed, Group, GroupContract
from rota.ledger.artifacts import load_artifact

NODES = ("http://127.0.0.1:31548", "http://127.0.0.1:31648", "http://127.0.0.1:31748")
# contracts/PrivateToken.sol as the compiler made it. Nothing in it knows that it is private: any contract will do.
TOKEN = load_artifact("PrivateToken")
ISSUED, SENT = 100, 30


async def share(alice: Client, bob: Client, outsider: Client) -> None:
    """From the group's creation to what an outsider sees of it."""
    members = (f"alice@{await alice.name()}", f"bob@{await bob.name()}")
    alices, bobs = [await alice.address_of(member) for member in members]

    # Both members' nodes run every transaction and must agree on what it does.
    group = await alice.groups.create(members=members, name="shares", configuration={"endorsementThreshold": 2})
    print(f"{' and '.join(members)} have the group {group.name} at {group.address}", flush=True)

    shares = await group.deploy(TOKEN.abi, "0x" + TOKEN.bytecode.hex(), ["Shares", "SHR"])
    print(f"{members[0]} has deployed a private ERC-20 at {shares.address}", flush=True)
    await (await shares.send("mint", [alices, ISSUED]))
    transferred = await shares.send("transfer", {"to": bobs, "value": SENT})
    full = await transferred.full_receipt()
    logs = (full.domain_receipt or {})["receipt"]["logs"]
    print(f"{members[0]} has sent {SENT} to {members[1]}; the private contract emitted {len(logs)} event", flush=True)

    # The other member finds the group by its id, and the contract by the address that it was told by a message.
    await group.send_message("contracts", {"shares": shares.address})
    theirs = await found(bob, group.id)
    message = await anext(bob.messages(f"contracts-{group.id[:10]}", group=group.id))
    bobs_view = theirs.contract(message.data["shares"], TOKEN.abi)
    await bob.transaction(transferred.id)
    for who, contract, client in ((members[0], shares, alice), (members[1], bobs_view, bob)):
        print(f"{who} sees {await balances(contract, client, members)}", flush=True)

    try:
        await (await bobs_view.send("transfer", {"to": alices, "value": SENT + 1}))
    except Failed as failed:
        print(f"{members[1]} cannot send {SENT + 1}: {failed}", flush=True)

    is_known = await outsider.groups.get(group.id) is not None
    print(f"{await outsider.name()} {'knows' if is_known else 'does not know'} the group", flush=True)


async def found(client: Client, group_id: str) -> Group:
    """The group as another member's node has it."""
    group = await client.groups.get(group_id)
    assert group is not None, "the group's creation ends when the members' nodes have it"
    return group


async def balances(contract: GroupContract, client: Client, members: tuple[str, ...]) -> str:
    """Of all members, as one member's node has them."""
    told = []
    for member in members:
        answer = await contract.call("balanceOf", [await client.address_of(member)])
        told.append(f"{member}: {answer['balance']}")
    return ", ".join(told)


async def main(nodes: list[str]) -> int:
    """Exit 0: all of it happened. 1: something did not, and why."""
    try:
        async with (
            Client(nodes[0], sender="alice") as alice,
            Client(nodes[1], sender="bob") as bob,
            Client(nodes[2]) as outsider,
        ):
            await share(alice, bob, outsider)
    except ClientError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Share a private ERC-20 contract in a privacy group.")
    parser.add_argument("nodes", nargs="*", default=NODES, help="the two members' nodes, and an outsider's")
    given = parser.parse_args()
    if len(given.nodes) != len(NODES):
        parser.error(f"nodes: must be {len(NODES)} URLs, not {len(given.nodes)}")
    sys.exit(asyncio.run(main(list(given.nodes))))
