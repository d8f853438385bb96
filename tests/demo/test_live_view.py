"""The picture on a terminal of whatever width, and the summary at the end."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from rota.client import ContractStatus
from rota.demo.live_view import LiveView, picture, sum_up
from rota.demo.programme import Asset, Programme
from rota.demo.show import Attempts, BurstTold, CommandTold, Happening, Show, TakeOver
from rota.localnet.audit import Audit
from rota.model.types import ContractAddress, NodeName, Party

NODE1, NODE2, NODE3 = (NodeName(f"node{number}") for number in (1, 2, 3))
CONTRACTS = {Asset.TOKEN: ContractAddress("0x" + "11" * 20), Asset.ERC20: ContractAddress("0x" + "22" * 20)}


def status(asset: Asset, state: str, **coordinating: int) -> ContractStatus:
    return ContractStatus(
        contract=CONTRACTS[asset],
        domain="pente",
        mode="ring",
        rotation="sticky",
        committee=(),
        endorsers=(),
        threshold=2,
        height=5,
        range=0,
        range_size=100,
        ranking=(),
        active_coordinator=None,
        active_since=None,
        coordinator_state=state,
        coordinator_since="",
        sender_state="",
        sending={},
        coordinating=coordinating,
        silent=(),
    )


def at_work() -> Show:
    """In the middle: node1 was killed, node3 has the group, node2 the token."""
    show = Show(Programme(), lambda _: None)
    show.phase = "node1 is gone"
    show.contracts = dict(CONTRACTS)
    show.pids = {"the chain (embedded)": 9, NODE2: 12, NODE3: 13}
    show.statuses = {
        (Asset.ERC20, NODE1): None,
        (Asset.ERC20, NODE2): status(Asset.ERC20, "Observing"),
        (Asset.ERC20, NODE3): status(Asset.ERC20, "Active", Pooled=4, Assembling=2, Submitted=3, Dispatched=1),
        (Asset.TOKEN, NODE2): status(Asset.TOKEN, "Active", Endorsement_Gathering=1),
    }
    show.sent.update({NODE1: 7, NODE2: 1_234})
    show.attempts = {NODE2: Attempts(won=3, lost=1)}
    show.figures[Asset.ERC20].gas_per_transaction = 47_885.4
    show.happenings.append(Happening(15.0, "kill -9 of node1, which coordinates the group (process 11)", is_fault=True))
    return show


def drawn(show: Show, width: int) -> str:
    console = Console(file=StringIO(), force_terminal=False, width=width, highlight=False)
    console.print(picture(show))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_the_picture_says_who_is_gone_who_coordinates_what_at_which_stage_and_what_it_costs() -> None:
    lines = drawn(at_work(), 80).splitlines()
    assert "node1 is gone" in lines[0]
    rows = {line.split()[0]: line.split() for line in lines[1:] if line.strip()}
    assert rows["node1"][-1] == "gone"
    assert rows["node2"][1:] == ["12", "1,234", "0", "3", "1", "leads", "token"]
    assert rows["node3"][-2:] == ["leads", "ERC-20"]
    assert rows["token"] == ["token", "node2", "0", "0", "1", "0", "0", "0.0"]
    assert rows["ERC-20"] == ["ERC-20", "node3", "4", "2", "0", "0", "4", "0.0", "47,885"]
    assert any("kill -9 of node1" in line for line in lines)


def test_two_that_think_they_coordinate_are_nobody() -> None:
    show = at_work()
    show.statuses[Asset.ERC20, NODE2] = status(Asset.ERC20, "Active")
    assert show.coordinator_of(Asset.ERC20) is None
    assert "nobody" in drawn(show, 80)


@pytest.mark.parametrize("width", [1, 10, 20, 40, 80, 200])
def test_the_picture_fits_every_terminal(width: int) -> None:
    for show in (at_work(), Show(Programme(node_count=9), lambda _: None)):
        assert max(len(line) for line in drawn(show, width).splitlines()) <= width


def test_without_a_terminal_a_happening_is_a_line_of_its_own() -> None:
    console = Console(file=StringIO(), force_terminal=False, width=40)
    view = LiveView(console)
    show = Show(Programme(), view.tell)
    with view.entered(show):
        show.happen("a line that is longer than forty columns are wide, and is not broken")
        view.refresh()
    assert isinstance(console.file, StringIO)
    assert console.file.getvalue().count("\n") == 1


def ended() -> Show:
    show = at_work()
    show.coordinators = [NODE1, NODE3]
    show.take_overs = [TakeOver(NODE1, NODE3, 482, 3_900)]
    show.command = CommandTold("the rent of May", Party("carol@node3"), 2, 1, "an id")
    show.audited = Audit(115, 90, 105, ())
    show.figures[Asset.ERC20].burst = BurstTold(150, 3, 8_123.4)
    show.epochs = 5
    show.epochs_by_node = {NODE1: 2, NODE2: 3}
    return show


def test_the_summary_has_the_take_over_the_gas_the_command_and_the_epochs() -> None:
    console = Console(file=StringIO(), force_terminal=False, width=200)
    sum_up(console, ended())
    assert isinstance(console.file, StringIO)
    text = console.file.getvalue()
    for words in (
        "1241 asked for, 105 confirmed exactly once",
        "47,885 for a transfer of the ERC-20",
        "8,123 for a transfer of the ERC-20: 150 at once took 3 transactions on the chain",
        "node1 killed, node3 next: 482 ms to the next receipt; back, node1 needed 3900 ms",
        "5 epochs, each started once, by the chain: node1 2, node2 3",
        "submitted 2 times, happened once",
        "all nodes stand at block 115",
    ):
        assert words in text


def test_a_summary_with_problems_claims_no_agreement() -> None:
    show = ended()
    show.audited = Audit(115, 90, 104, ("something is missing",))
    console = Console(file=StringIO(), force_terminal=False, width=200)
    sum_up(console, show)
    assert isinstance(console.file, StringIO)
    text = console.file.getvalue()
    assert "agreement" not in text
    assert "problem       something is missing" in text
    assert show.summary()["problems"] == ["something is missing"]


def test_a_demonstration_without_an_end_has_a_problem() -> None:
    assert Show(Programme(), lambda _: None).problems == ("it did not come to its end",)
