"""Notary tokens (domain `noto`): deploying them, and all that their holders do.

    token = await client.tokens.deploy(name="Coin", symbol="C", notary="bank@node1", sender="bank")
    await (await token.mint("alice@node1", 100, sender="bank"))
    await (await token.transfer("bob@node2", 30, sender="alice"))

What changes something is sent and gives a `Transaction`; what only looks is answered at once, from what this node
holds: the notary's node knows every balance, a holder's its own. Parties are written `alice@node1`; `data` is hex text
that all who pay or get something see.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final

from rota.client.answers import Balance
from rota.client.errors import BalanceUnknown, Unreachable
from rota.client.jsonrpc import read
from rota.client.transactions import Transaction, TransactionClient

DOMAIN: Final = "noto"
NO_DATA: Final = "0x"
# As many digits as an amount can have.
EXACT: Final = Context(prec=100)


class Tokens:
    """The tokens that a node can use."""

    def __init__(self, client: TransactionClient) -> None:
        self._client: Final = client

    async def deploy(
        self,
        *,
        name: str,
        symbol: str,
        notary: str,
        restrict_mint: bool = True,
        allow_burn: bool = True,
        allow_lock: bool = True,
        public_locks: bool = True,
        sender: str = "",
        key: str = "",
    ) -> Token:
        """A new token, when it can be used. With `restrict_mint` the notary alone mints.

        With `public_locks` delegates end locks by calls of the token's contract. Without them, locks are private
        states, which delegates end by prepared transitions, as settlements do.
        """
        options = {"restrictMint": restrict_mint, "allowBurn": allow_burn, "allowLock": allow_lock}
        constructor = {
            "name": name,
            "symbol": symbol,
            "notary": notary,
            "notaryMode": "basic",
            "options": {"basic": options, "publicLocks": public_locks},
        }
        transaction = await self._client.deploy(DOMAIN, constructor, sender=sender, key=key)
        receipt = await transaction
        return Token(self._client, read(receipt.contract_address, str))

    def at(self, address: str) -> Token:
        """The token at an address."""
        return Token(self._client, address)


class Token:
    """One token, as this node's users use it."""

    def __init__(self, client: TransactionClient, address: str) -> None:
        self.address: Final = address
        self._client: Final = client

    def __repr__(self) -> str:
        return f"Token({self.address!r})"

    # Paying.

    async def mint(
        self, to: str, amount: int, *, data: str = NO_DATA, sender: str = "", key: str = "", new_party: bool = False
    ) -> Transaction:
        """Mint coins for a party."""
        arguments = {"to": to, "amount": str(amount), "data": data}
        return await self._send("mint", arguments, sender, key, new_party)

    async def transfer(
        self, to: str, amount: int, *, data: str = NO_DATA, sender: str = "", key: str = "", new_party: bool = False
    ) -> Transaction:
        """Pay a party with the sender's coins; the rest comes back as change."""
        arguments = {"to": to, "amount": str(amount), "data": data}
        return await self._send("transfer", arguments, sender, key, new_party)

    async def transfer_from(
        self,
        owner: str,
        to: str,
        amount: int,
        *,
        data: str = NO_DATA,
        sender: str = "",
        key: str = "",
        new_party: bool = False,
    ) -> Transaction:
        """Pay a party with an owner's coins; for that owner and for the notary."""
        arguments = {"from": owner, "to": to, "amount": str(amount), "data": data}
        return await self._send("transferFrom", arguments, sender, key, new_party)

    async def burn(self, amount: int, *, data: str = NO_DATA, sender: str = "", key: str = "") -> Transaction:
        """Destroy coins of the sender."""
        return await self._send("burn", {"amount": str(amount), "data": data}, sender, key)

    async def burn_from(
        self, owner: str, amount: int, *, data: str = NO_DATA, sender: str = "", key: str = ""
    ) -> Transaction:
        """Destroy coins of an owner; for that owner and for the notary."""
        return await self._send("burnFrom", {"from": owner, "amount": str(amount), "data": data}, sender, key)

    # Locks. `recipients` are payees with their amounts. `expires_at` is in seconds of the chain's time.

    async def lock(self, amount: int, *, data: str = NO_DATA, sender: str = "", key: str = "") -> Transaction:
        """Lock coins of the sender; `lock_id` of the transaction names the lock."""
        return await self._send("lock", {"amount": str(amount), "data": data}, sender, key)

    async def create_transfer_lock(
        self,
        owner: str,
        recipients: Mapping[str, int],
        *,
        unlock_data: str = NO_DATA,
        expires_at: int = 0,
        data: str = NO_DATA,
        sender: str = "",
        key: str = "",
    ) -> Transaction:
        """Lock coins of an owner that these recipients get when the lock is spent."""
        arguments = {"from": owner, "recipients": _shares(recipients), "unlockData": unlock_data, "data": data}
        return await self._send("createTransferLock", arguments | _end(expires_at), sender, key)

    async def create_burn_lock(
        self,
        owner: str,
        amount: int,
        *,
        unlock_data: str = NO_DATA,
        expires_at: int = 0,
        data: str = NO_DATA,
        sender: str = "",
        key: str = "",
    ) -> Transaction:
        """Lock coins of an owner that are burned when the lock is spent."""
        arguments = {"from": owner, "amount": str(amount), "unlockData": unlock_data, "data": data}
        return await self._send("createBurnLock", arguments | _end(expires_at), sender, key)

    async def create_mint_lock(
        self,
        recipients: Mapping[str, int],
        *,
        unlock_data: str = NO_DATA,
        expires_at: int = 0,
        data: str = NO_DATA,
        sender: str = "",
        key: str = "",
    ) -> Transaction:
        """A lock of nothing, from which these recipients are minted coins when it is spent."""
        arguments = {"recipients": _shares(recipients), "unlockData": unlock_data, "data": data}
        return await self._send("createMintLock", arguments | _end(expires_at), sender, key)

    async def prepare_unlock(
        self,
        lock_id: str,
        owner: str,
        recipients: Mapping[str, int],
        *,
        unlock_data: str = NO_DATA,
        expires_at: int = 0,
        data: str = NO_DATA,
        sender: str = "",
        key: str = "",
    ) -> Transaction:
        """Settle who gets what of a lock when it is spent."""
        shares = _shares(recipients)
        arguments = {"lockId": lock_id, "from": owner, "recipients": shares, "unlockData": unlock_data, "data": data}
        return await self._send("prepareUnlock", arguments | _end(expires_at), sender, key)

    async def prepare_burn_unlock(
        self,
        lock_id: str,
        owner: str,
        amount: int,
        *,
        unlock_data: str = NO_DATA,
        expires_at: int = 0,
        data: str = NO_DATA,
        sender: str = "",
        key: str = "",
    ) -> Transaction:
        """Settle that a lock is burned when it is spent."""
        arguments = {"lockId": lock_id, "from": owner, "amount": str(amount), "unlockData": unlock_data, "data": data}
        return await self._send("prepareBurnUnlock", arguments | _end(expires_at), sender, key)

    async def prepare_mint_unlock(
        self,
        lock_id: str,
        recipients: Mapping[str, int],
        *,
        unlock_data: str = NO_DATA,
        data: str = NO_DATA,
        sender: str = "",
        key: str = "",
    ) -> Transaction:
        """Settle whom a lock mints coins for when it is spent."""
        arguments = {"lockId": lock_id, "recipients": _shares(recipients), "unlockData": unlock_data, "data": data}
        return await self._send("prepareMintUnlock", arguments, sender, key)

    async def unlock(
        self,
        lock_id: str,
        owner: str,
        recipients: Mapping[str, int],
        *,
        data: str = NO_DATA,
        sender: str = "",
        key: str = "",
    ) -> Transaction:
        """Pay from a lock; the rest stays locked."""
        arguments = {"lockId": lock_id, "from": owner, "recipients": _shares(recipients), "data": data}
        return await self._send("unlock", arguments, sender, key)

    async def delegate_lock(
        self, lock_id: str, delegate: str, *, data: str = NO_DATA, sender: str = "", key: str = ""
    ) -> Transaction:
        """From now on only this address on the base ledger may end the lock."""
        arguments = {"lockId": lock_id, "delegate": delegate, "data": data}
        return await self._send("delegateLock", arguments, sender, key)

    async def spend_lock(self, lock_id: str, *, data: str = NO_DATA, sender: str = "", key: str = "") -> Transaction:
        """Carry out a prepared unlock; the owner of the lock gets the rest."""
        return await self._send("spendLock", {"lockId": lock_id, "data": data}, sender, key)

    async def cancel_lock(self, lock_id: str, *, data: str = NO_DATA, sender: str = "", key: str = "") -> Transaction:
        """Give all of a lock back to its owner."""
        return await self._send("cancelLock", {"lockId": lock_id, "data": data}, sender, key)

    async def lock_info(self, transaction_id: str) -> dict[str, Any]:
        """The lock that a transaction made or prepared, once it is confirmed: its id, and the calls of its delegate."""
        full = await self._client.transaction(transaction_id).full_receipt()
        info = (full.domain_receipt or {}).get("lockInfo")
        if not isinstance(info, dict):
            raise Unreachable(f"this node knows of no lock that {transaction_id} made")
        return info

    async def lock_id(self, transaction_id: str) -> str:
        """The id of the lock that a transaction made, once it is confirmed."""
        return read((await self.lock_info(transaction_id)).get("lockId"), str)

    # Looking.

    async def balance_of(self, account: str, *, sender: str = "") -> Balance:
        """What an account has. `BalanceUnknown` names the nodes that know it, when this one does not."""
        found = read(await self._call("balanceOf", {"account": account}, sender), Balance)
        if found.unknown:
            raise BalanceUnknown(account, found.known_by)
        return found

    async def name(self, *, sender: str = "") -> str:
        """What it is called."""
        return await self._text("name", sender)

    async def symbol(self, *, sender: str = "") -> str:
        """Its short name."""
        return await self._text("symbol", sender)

    async def decimals(self, *, sender: str = "") -> int:
        """How many digits of an amount are behind the point when it is shown."""
        return int(await self._text("decimals", sender))

    async def units(self, amount: str, *, sender: str = "") -> int:
        """An amount with a point, such as 1.5, as the whole number of smallest units that all other calls take."""
        decimals = await self.decimals(sender=sender)
        try:
            units = Decimal(amount).scaleb(decimals, EXACT)
        except InvalidOperation:
            units = Decimal("NaN")
        if not units.is_finite() or units != units.to_integral_value():
            raise ValueError(
                f"amount: must be a number with at most {decimals} digits behind the point, not {amount!r}"
            )
        return int(units)

    async def _send(
        self, function: str, arguments: Mapping[str, object], sender: str, key: str, new_party: bool = False
    ) -> Transaction:
        return await self._client.send(self.address, function, arguments, sender=sender, key=key, new_party=new_party)

    async def _call(self, function: str, arguments: Mapping[str, object], sender: str) -> Any:  # noqa: ANN401
        return await self._client.call(self.address, function, arguments, sender=sender)

    async def _text(self, function: str, sender: str) -> str:
        answer = await self._call(function, {}, sender)
        return read(next(iter(answer.values()), None) if isinstance(answer, dict) else answer, str)


def _end(expires_at: int) -> dict[str, Any]:
    """When a lock expires, in seconds of the chain's time; without it never."""
    return {"expiresAt": str(expires_at)} if expires_at else {}


def _shares(recipients: Mapping[str, int]) -> list[dict[str, str]]:
    return [{"to": to, "amount": str(amount)} for to, amount in recipients.items()]
