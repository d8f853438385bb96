"""Pays everybody in a list exactly once, however often it is killed and started again.

    python pay.py --node http://127.0.0.1:31548 --contract 0x... --from treasury payments.csv

The list has a line per payment: an id of its own, who is paid, and how much. The journal beside it remembers what has
begun. Kill this programme at any moment, or the node, and run it again: who was paid is not paid twice, and who was not
is paid now.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import sys
from pathlib import Path

from rota.client import Client, Journal, Outcome, Patience

APPLICATION = "payments"


async def pay(url: str, contract: str, payer: str, payments: Path, journal_file: Path) -> int:
    """All payments of the list, one after the other; how many are not known to have happened."""
    open_count = 0
    # The names in the file were checked before: also a party that nobody has used yet is paid.
    async with Client(url, payees="any") as node:
        with Journal(journal_file) as journal:
            patience = Patience(attempts_max=60)
            commands = node.commands(journal, application_id=APPLICATION, act_as=(payer,), patience=patience)
            with payments.open(newline="") as lines:
                for payment, payee, amount in csv.reader(lines):
                    transaction = {
                        "type": "private",
                        "from": payer,
                        "to": contract,
                        "function": "transfer",
                        "data": {"to": payee, "amount": amount, "data": "0x"},
                    }
                    # The payment's own id is the command id: whoever submits it again means the same payment.
                    verdict = await commands.exactly_once(payment, transaction, command_id=payment)
                    why = "" if verdict.error is None else f": {verdict.error.message}"
                    print(f"{payment} {payee} {amount} {verdict.outcome.value}{why}", flush=True)
                    open_count += verdict.outcome is not Outcome.SUCCEEDED
    return open_count


def main() -> int:
    """Exit 0: everybody was paid. 1: somebody was not, or it is not known."""
    parser = argparse.ArgumentParser(description="Pay everybody in a list exactly once.")
    parser.add_argument("payments", type=Path, help="a CSV file: id, payee, amount")
    parser.add_argument("--node", required=True, help="the JSON-RPC of the node; always the same")
    parser.add_argument("--contract", required=True, help="the token that is paid with")
    parser.add_argument("--from", dest="payer", required=True, help="who pays, a party of the node")
    parser.add_argument("--journal", type=Path, help="default: the list's name with .journal behind it")
    given = parser.parse_args()
    journal = given.journal or given.payments.with_name(given.payments.name + ".journal")
    return 1 if asyncio.run(pay(given.node, given.contract, given.payer, given.payments, journal)) else 0


if __name__ == "__main__":
    sys.exit(main())
