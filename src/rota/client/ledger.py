"""The base ledger, through a node: public contracts that its users deploy, call and ask.

    contract = await client.ledger.deploy(abi, bytecode, ["name"], sender="alice")
    await (await contract.send("set", {"value": 5}, sender="alice"))
    answer = await contract.call("get")

The node signs with the key of the sender, keeps its nonces in order, and offers more for gas when blocks pass it by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rota.client.dependencies import Dependency, as_json
from rota.client.groups import Abi, Arguments
from rota.client.jsonrpc import read
from rota.client.transactions import Transaction, TransactionClient

PUBLIC: Final = "public"


class Ledger:
    """The base ledger of a node."""

    def __init__(self, client: TransactionClient) -> None:
        self._client: Final = client

    async def deploy(
        self,
        abi: Abi,
        bytecode: str,
        arguments: Arguments = (),
        *,
        sender: str = "",
        key: str = "",
        depends_on: Sequence[Dependency] = (),
    ) -> PublicContract:
        """A new public contract, when it is final on the chain."""
        wanted = {
            "type": PUBLIC,
            "from": sender or self._client.sender,
            "abi": list(abi),
            "bytecode": bytecode,
            "data": arguments,
            "dependsOn": as_json(depends_on),
        }
        receipt = await (await self._client.submit("ptx_sendTransaction", wanted, key))
        return self.contract(read(receipt.contract_address, str), abi)

    def contract(self, address: str, abi: Abi) -> PublicContract:
        """A public contract by its address."""
        return PublicContract(self._client, address, abi)

    async def commit(self, prepared: Mapping[str, Any], *, sender: str = "", key: str = "") -> Transaction:
        """Bring a prepared transaction to the ledger: the `transaction` of what `prepared` answers."""
        wanted = {**prepared, "from": sender or self._client.sender}
        return await self._client.submit("ptx_sendTransaction", wanted, key)


class PublicContract:
    """A contract on the base ledger."""

    def __init__(self, client: TransactionClient, address: str, abi: Abi) -> None:
        self.address: Final = address
        self.abi: Final = tuple(dict(each) for each in abi)
        self._client: Final = client

    def __repr__(self) -> str:
        return f"PublicContract({self.address!r})"

    async def send(
        self,
        function: str,
        arguments: Arguments = (),
        *,
        sender: str = "",
        key: str = "",
        depends_on: Sequence[Dependency] = (),
    ) -> Transaction:
        """Have a function called by a transaction of the sender's."""
        wanted = {**self._question(function, arguments, sender), "dependsOn": as_json(depends_on)}
        return await self._client.submit("ptx_sendTransaction", wanted, key)

    async def call(self, function: str, arguments: Arguments = (), *, sender: str = "") -> Any:  # noqa: ANN401
        """What a function answers as of the latest block."""
        return await self._client.ask_at_least("ptx_call", self._question(function, arguments, sender), self.address)

    def _question(self, function: str, arguments: Arguments, sender: str) -> dict[str, object]:
        return {
            "type": PUBLIC,
            "from": sender or self._client.sender,
            "to": self.address,
            "abi": list(self.abi),
            "function": function,
            "data": arguments,
        }
