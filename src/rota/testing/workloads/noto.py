"""Users of notary tokens: all operations of a token, and amounts that are neither created nor lost."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

from rota.domains.noto.operations import lock_id_of
from rota.domains.noto.records import Coin, Lock
from rota.host import UserCall
from rota.model.types import IntentId, Party, SubmitMode, node_of
from rota.testing.simulation import Ended, Scene, Workload

NOTARY = Party("notary@A")
USERS = tuple(Party(f"user@{node}") for node in "BCD")
DELEGATE = "0x" + "de" * 20
TOKEN = {"notary": NOTARY, "name": "Gold", "options": {"publicLocks": False}}


@dataclass(slots=True)
class TokenUsers:
    """The users' calls, and the amounts that they change."""

    minted: dict[IntentId, int] = field(default_factory=dict)
    burned: dict[IntentId, int] = field(default_factory=dict)
    unknown: list[IntentId] = field(default_factory=list)

    def calls(self, scene: Scene) -> Generator[UserCall, IntentId | None, None]:
        """All operations of a token, at random; locks are used later, also by parties that may not use them."""
        random = scene.random
        self.minted, self.burned, self.unknown = {}, {}, []
        locks = [b"\x07" * 32]
        promised: dict[bytes, int] = {}
        while True:
            user, other = random.choice(USERS), random.choice((*USERS, NOTARY))
            amount, lock = random.randint(1, 60), random.choice(locks[-8:])
            lock_id, shares = "0x" + lock.hex(), [{"to": other, "amount": amount}]
            match random.randint(0, 14):
                case 0 | 1 | 2:
                    intent = yield UserCall(NOTARY, "mint", [user, amount])
                    self._note(self.minted, intent, amount)
                case 3 | 4 | 5:
                    yield UserCall(user, "transfer", [other, amount])
                case 6:
                    intent = yield UserCall(user, "burn", [amount])
                    self._note(self.burned, intent, amount)
                case 7:
                    sender = random.choice((user, NOTARY))
                    yield UserCall(sender, "transferFrom", [user, other, amount])
                case 8:
                    intent = yield UserCall(user, "lock", [amount])
                    self._note_lock(scene, locks, intent)
                case 9:
                    intent = yield UserCall(user, "createTransferLock", [user, shares])
                    self._note_lock(scene, locks, intent)
                case 10:
                    intent = yield UserCall(NOTARY, "createMintLock", [shares])
                    self._note_lock(scene, locks, intent)
                    promised[locks[-1]] = amount
                case 11:
                    intent = yield UserCall(random.choice((user, NOTARY)), "spendLock", [lock_id])
                    self._note(self.minted, intent, promised.get(lock, 0))
                case 12:
                    yield UserCall(user, "transfer", [other, amount], SubmitMode.EXTERNAL)
                case 13:
                    # Delegate the latest lock, and end it as its current delegate.
                    yield UserCall(user, "delegateLock", ["0x" + locks[-1].hex(), DELEGATE])
                    ending = random.choice(("spendLock", "cancelLock"))
                    yield UserCall(user, ending, ["0x" + locks[-1].hex()], SubmitMode.EXTERNAL)
                case _:
                    ending = random.choice(("cancelLock", "unlock", "unknown"))
                    if ending == "unknown":
                        intent = yield UserCall(user, "transfer", [f"nobody@{random.choice('ABCD')}", amount])
                        self.unknown += [intent] if intent is not None else []
                    elif ending == "unlock":
                        yield UserCall(user, "unlock", [lock_id, user, shares])
                    else:
                        yield UserCall(user, "cancelLock", [lock_id])

    def must_hold(self, ended: Ended) -> Iterator[str]:
        """The unspent total is what was minted and not burned, and no unknown receiver was paid."""
        expected = sum(self.minted.get(intent, 0) - self.burned.get(intent, 0) for intent in ended.committed)
        held = sum(state.record.amount for state in ended.unspent if isinstance(state.record, Coin | Lock))
        if held != expected:
            yield f"{expected} was minted and not burned, and {held} is there"
        yield from (f"{intent!r} has paid an unknown receiver" for intent in self.unknown if intent in ended.committed)
        for state in ended.unspent:
            for node in {node_of(reader) for reader in state.readers}:
                if state.id not in ended.held[node]:
                    yield f"{node} may see a state of {state.record} and does not hold it"

    def _note(self, amounts: dict[IntentId, int], intent: IntentId | None, amount: int) -> None:
        if intent is not None:
            amounts[intent] = amount

    def _note_lock(self, scene: Scene, locks: list[bytes], intent: IntentId | None) -> None:
        assert intent is not None, "nothing is wrong with this call"
        locks.append(lock_id_of(scene.hosted.separator, intent))

    def workload(self) -> Workload:
        """The workload for the simulator."""
        return Workload(NOTARY, TOKEN, self.calls, self.must_hold, node_count=4)
