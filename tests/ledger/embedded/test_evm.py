"""What the chain relies on of its EVM, and what it makes up for."""

import pytest

from rota.ledger.embedded.evm import NO_ADDRESS, BlockContext, Evm, Message, Outcome
from rota.ledger.embedded.state import NO_ACCOUNT, Account, AccountChange, Changes, State
from rota.ledger.transaction import AccessEntry, created_address
from rota.model.digests import keccak
from rota.revm import NotRunnable
from tests.ledger.embedded.contracts import ENDLESS, INVALID, KEEPER, REVERTER, creation, error_string, keep, word

SENDER, CONTRACT = b"\xaa" * 20, b"\xcc" * 20
BIGGEST = 2**256 - 1


class Bench:
    """A state, the EVM on it, and a sender with ether."""

    def __init__(self, code: bytes = b"") -> None:
        self.state = State()
        self.evm = Evm(31_337, 60_000_000, self.state)
        self.take(Changes({SENDER: AccountChange(NO_ACCOUNT, Account(balance=10**24))}))
        if code:
            account = Account(nonce=1, code_hash=self.state.add_code(code))
            self.take(Changes({CONTRACT: AccountChange(NO_ACCOUNT, account)}))
        self.evm.enter_block(BlockContext(7, 1_000, b"\x11" * 32))

    def take(self, changes: Changes) -> None:
        self.state.apply(changes)
        self.evm.write(changes)

    def run(
        self,
        data: bytes = b"",
        *,
        to: bytes | None = CONTRACT,
        value: int = 0,
        gas: int = 500_000,
        access: tuple[AccessEntry, ...] = (),
    ) -> Outcome:
        return self.evm.run(Message(SENDER, to, data, value, gas, 10**9, access))

    def do(self, data: bytes = b"", *, to: bytes | None = CONTRACT, value: int = 0) -> Outcome:
        outcome = self.run(data, to=to, value=value)
        self.take(outcome.changes)
        return outcome


def test_a_run_changes_nothing_until_its_changes_are_taken() -> None:
    bench = Bench(KEEPER)
    outcome = bench.run(keep(1, BIGGEST))
    assert outcome.changes.slots == {(CONTRACT, 1): (0, BIGGEST)}
    assert bench.run(keep(1, 5)).changes.slots == {(CONTRACT, 1): (0, 5)}
    bench.take(outcome.changes)
    assert bench.state.slot(CONTRACT, 1) == BIGGEST
    assert bench.run(keep(1, 5)).changes.slots == {(CONTRACT, 1): (BIGGEST, 5)}


def test_each_run_finds_every_place_cold() -> None:
    bench = Bench(KEEPER)
    first_write, change = bench.do(keep(1, 8)).gas_used, bench.do(keep(1, 9)).gas_used
    assert first_write - change == 17_100  # a new slot costs 20,000, a change 2,900, both behind a cold access of 2,100
    assert bench.run(keep(1, 10)).gas_used - change == 0
    assert bench.run(keep(1, 10)).gas_used - change == 0


def test_an_access_list_makes_places_warm_for_one_run_only() -> None:
    bench = Bench(KEEPER)
    bench.do(keep(1, 8))
    plain = bench.run(keep(1, 9)).gas_used
    listed = bench.run(keep(1, 9), access=(AccessEntry(CONTRACT, (word(1),)),)).gas_used
    assert listed == plain + 2_400 + 1_900 - 2_000
    assert bench.run(keep(1, 9)).gas_used == plain


def test_what_was_undone_is_gone_from_the_evm_too() -> None:
    bench = Bench(KEEPER)
    before = bench.state.position
    bench.do(keep(0, 5))
    assert bench.run(keep(0, 0)).output == word(5)
    bench.evm.write(bench.state.undo())
    assert bench.run(keep(0, 0)).output == word(0)
    assert bench.state.position == before


def test_a_created_contract_has_exactly_its_code() -> None:
    bench = Bench()
    outcome = bench.do(creation(KEEPER), to=None, value=3)
    address = created_address(SENDER, 0)
    account = bench.state.account(address)
    assert outcome.succeeded
    assert account == Account(1, 3, keccak(KEEPER))
    assert bench.state.code(account.code_hash) == KEEPER
    assert outcome.output == KEEPER
    bench.do(keep(0, 4), to=address)
    assert bench.run(keep(0, 0), to=address).output == word(4)


def test_a_contract_that_destroys_itself_in_its_constructor_leaves_nothing() -> None:
    bench = Bench()
    # It writes a slot, and then destroys itself in favour of its creator.
    outcome = bench.do(bytes.fromhex("60015f5533ff"), to=None, value=3)
    address = created_address(SENDER, 0)
    assert outcome.succeeded
    assert bench.state.account(address) == NO_ACCOUNT
    assert bench.state.slot(address, 0) == 0
    assert bench.state.account(SENDER).balance == 10**24


def test_a_revert_tells_its_output_and_changes_nothing() -> None:
    outcome = Bench(REVERTER).run(error_string("no"), value=9)
    assert (outcome.succeeded, outcome.reverted, outcome.output) == (False, True, error_string("no"))
    assert outcome.changes == Changes({}, {})
    assert outcome.gas_used < 30_000


@pytest.mark.parametrize(("code", "reason"), [(INVALID, "InvalidFEOpcode"), (ENDLESS, "OutOfGas(Basic)")])
def test_a_broken_rule_takes_all_gas(code: bytes, reason: str) -> None:
    outcome = Bench(code).run(gas=90_000)
    assert (outcome.succeeded, outcome.reverted, outcome.reason, outcome.gas_used) == (False, False, reason, 90_000)
    assert outcome.changes == Changes({}, {})


def test_a_creation_that_fails_leaves_no_contract() -> None:
    outcome = Bench().run(REVERTER + b"x", to=None)
    assert not outcome.succeeded
    assert created_address(SENDER, 0) not in outcome.changes.accounts
    assert NO_ADDRESS not in outcome.changes.accounts


def test_logs_come_with_topics_and_data() -> None:
    (log,) = Bench(KEEPER).run(keep(3, 4)).logs
    assert (log.address, log.topics, log.data) == (CONTRACT, (word(3), word(4)), word(4))


def test_what_a_contract_logs_cannot_pass_for_an_effect() -> None:
    hostile = b"}, transient_storage: {state: {0x" + b"bb" * 20 + b": Account { info: AccountInfo { balance: 9,"
    # Logs its calldata.
    bench = Bench(bytes.fromhex("365f5f37365fa0"))
    outcome = bench.run(hostile)
    assert outcome.logs[0].data == hostile
    assert outcome.changes == Changes({}, {})


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        ("33", int.from_bytes(SENDER, "big")),
        ("42", 1_000),
        ("43", 7),
        ("44", int.from_bytes(b"\x11" * 32, "big")),
        ("45", 60_000_000),
        ("46", 31_337),
        ("3a", 10**9),
        ("41", 0),
    ],
)
def test_a_message_learns_where_it_is(opcode: str, expected: int) -> None:
    assert Bench(bytes.fromhex(opcode + "5f5260205ff3")).run().output == word(expected)


@pytest.mark.parametrize(
    ("message", "flaw"),
    [
        (Message(SENDER, CONTRACT, b"", 10**25, 100_000, 0), "LackOfFund"),
        (Message(SENDER, CONTRACT, b"", 0, 20_000, 0), "Initial gas spend"),
        (Message(SENDER, None, bytes(49_153), 0, 10_000_000, 0), "CreateInitCodeSizeLimit"),
    ],
)
def test_a_message_that_cannot_start_says_why(message: Message, flaw: str) -> None:
    bench = Bench(KEEPER)
    with pytest.raises(NotRunnable, match=flaw):
        bench.evm.run(message)
    assert bench.run(keep(1, 1)).succeeded
