"""The live demonstration as processes: it ends well, it can be ended at any moment, and nothing is left of it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rota.demo.live import performed
from rota.demo.programme import Asset, Programme
from rota.demo.serving import PortInUse, ports_from, require_free
from rota.demo.show import Attempts, Show
from rota.ledger.embedded.accounts import DEVELOPMENT_ACCOUNTS
from rota.localnet.chains import NO_ANVIL, find_anvil
from rota.localnet.children import ROTA
from rota.model.types import IntentId, intent_text
from tests.cluster.commands import WAIT_S, read_until, relatives, started, until
from tests.ledger.chains import in_loop

pytestmark = pytest.mark.slow

SMALL = ("--seconds", "3", "--rate", "6", "--burst", "120")
NEVER = IntentId(b"\xee" * 16)
PROMPTED = re.compile(r"^  (\S.*?)(?:  |$)")


def summary_of(home: Path, *arguments: str) -> dict[str, Any]:
    """What a demonstration that ends well says of itself."""
    with started(home, "demo", "--once", "--json", *SMALL, *arguments) as process:
        output, errors = process.communicate(timeout=WAIT_S)
    assert (process.returncode, errors) == (0, ""), output
    assert output.count("\n") == 1
    left_over(home)
    summary: dict[str, Any] = json.loads(output)
    return summary


def left_over(home: Path) -> None:
    assert relatives(home) == []
    assert list(home.glob("rota-demo-*")) == []


def free_base() -> int:
    """A first port of which those of all nodes are free now.

    It lies below the ports that the kernel gives away, and depends on the process: tests that run at the same time do
    not choose the same.
    """
    for attempt in range(20):
        base = 10_000 + (os.getpid() + attempt) % 40 * 500
        try:
            require_free(ports_from(base))
        except PortInUse:
            continue
        return base
    raise AssertionError("no ports are free")


def test_every_intent_is_confirmed_once_a_coordinator_is_killed_a_command_happens_once_and_epochs_begin(
    tmp_path: Path,
) -> None:
    summary = summary_of(tmp_path)
    assert summary["problems"] == []
    assert summary["intents"] == summary["confirmed"] != 0
    (take_over,) = summary["take_overs"]
    assert summary["take_overs_ms"] == [take_over["stood_ms"]]
    assert summary["coordinators"][0] == take_over["killed"]
    assert take_over["successor"] in summary["coordinators"][1:]
    assert set(summary["contracts"]) == {asset.value for asset in Asset}
    for asset, lone_gas in summary["gas_per_transaction"].items():
        burst = summary["burst"][asset]
        assert burst["rounds"] < burst["transfers"]
        assert burst["gas_per_transaction"] < lone_gas
    assert sum(burst["transfers"] for burst in summary["burst"].values()) == 120
    assert summary["command"]["submissions"] == 2
    assert summary["epochs"] != 0
    assert list(summary["triggers"]) == list(Programme().names)
    assert list(summary["phases_s"]) == ["start", "stage", "workload", "end", "audit"]


@pytest.mark.nightly
@in_loop
async def test_the_audit_of_a_real_network_fails_when_the_book_says_something_else(tmp_path: Path) -> None:
    """The same network is audited again and again, each time with another untruth in the book."""
    programme = Programme(seconds=3, rate_per_s=6, burst=0)
    show = Show(programme, lambda _: None)
    async with performed(tmp_path / "network", programme, show, lambda: None) as reckoning:

        async def problems() -> str:
            return "\n".join((await reckoning.audit(show)).problems)

        assert show.problems == ()
        assert await problems() == ""
        promises = reckoning.workload.promises
        intent, promise = next(iter(promises.items()))
        receipt = reckoning.workload.receipts.pop(intent)
        assert f"{intent_text(intent)} of {promise.node} has not ended" in await problems()
        reckoning.workload.receipts[intent] = receipt
        promises[NEVER] = promise
        reckoning.workload.receipts[NEVER] = receipt
        counted_twice = await problems()
        assert f"{intent_text(NEVER)} of {promise.node} is confirmed, and 0 times on the chain" in counted_twice
        assert counted_twice.count(" says that ") >= len(programme.names), "the balances know of one transfer, not two"
        del promises[NEVER], reckoning.workload.receipts[NEVER]
        command, show.command = show.command, None
        assert command is not None
        assert f"{command.transaction} is on the chain, and nobody asked for it" in await problems()
        show.command = command
        show.attempts[programme.names[0]] = Attempts(won=1_000)
        assert f"{programme.names[0]} counts 1000 epochs as won" in await problems()


@pytest.mark.parametrize(
    ("moment", "times"),
    [
        ("are started", 1),
        ("node3 is process", 5),
        pytest.param("everybody has", 1, marks=pytest.mark.nightly),
        pytest.param("kill -9", 1, marks=pytest.mark.nightly),
    ],
)
def test_interrupted_demonstration_says_so_in_one_line_and_leaves_nothing(
    tmp_path: Path, moment: str, times: int
) -> None:
    with started(tmp_path, "demo", "--port", "0") as process:
        read_until(process, moment)
        for _ in range(times):
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=WAIT_S)
    assert (process.returncode, errors) == (130, "Interrupted: stopped by Ctrl-C.\n")
    left_over(tmp_path)


def test_demonstration_that_is_terminated_leaves_nothing(tmp_path: Path) -> None:
    with started(tmp_path, "demo", "--port", "0") as process:
        read_until(process, "node2 is process")
        process.terminate()
        process.communicate(timeout=WAIT_S)
    assert process.returncode == 130
    left_over(tmp_path)


def test_demonstration_that_is_killed_leaves_nothing_running(tmp_path: Path) -> None:
    with started(tmp_path, "demo", "--port", "0") as process:
        read_until(process, "node3 is process")
        assert len(relatives(tmp_path)) >= 5
        process.kill()
    until(lambda: relatives(tmp_path) == [])


def test_demonstration_stays_up_with_lines_that_work_and_a_second_one_says_what_is_in_its_way(tmp_path: Path) -> None:
    port = free_base()
    with started(tmp_path, "demo", "--port", str(port), *SMALL) as process:
        read_until(process, "Try next")
        assert process.stdout is not None
        lines: list[str] = []
        while not any("seq_status" in line for line in lines):
            found = PROMPTED.match(process.stdout.readline())
            if found:
                lines.append(found[1])
        second = subprocess.run(
            [*process.args, "--once"],  # type: ignore[misc]
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert second.returncode == 1
        assert second.stderr.startswith(f"Error: port {port} of node1 is not to be had: ")
        assert second.stderr.endswith("--port 0 takes ports that are free.\n")
        assert second.stderr.count("\n") == 1
        assert len(lines) == 6
        for line in lines:
            words = ["curl", "--fail", "-sL", line] if line.startswith("http") else shlex.split(line)
            command = [*ROTA, *words[1:]] if words[0] == "rota" else words
            done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
            assert (done.returncode, done.stderr) == (0, ""), line
            assert done.stdout
            assert '"error"' not in done.stdout
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=WAIT_S)
    assert (process.returncode, errors) == (0, "")
    assert output.endswith("Stopped; nothing is left running.\n")
    left_over(tmp_path)


@pytest.mark.nightly
@pytest.mark.skipif(find_anvil() is None, reason=f"there is no Anvil: {NO_ANVIL}")
def test_it_runs_on_anvil_with_more_nodes(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, "--ledger", "anvil", "--nodes", "4")
    assert summary["nodes"] == ["node1", "node2", "node3", "node4"]


@pytest.mark.nightly
def test_it_runs_on_a_chain_that_runs_already_asks_for_fees_and_is_paid_for_by_a_key(tmp_path: Path) -> None:
    key = tmp_path / "payer.key"
    key.touch(mode=0o600)
    key.write_text(DEVELOPMENT_ACCOUNTS[4].secret.hex())
    elsewhere = tmp_path / "chain"
    elsewhere.mkdir()
    home = tmp_path / "demo"
    home.mkdir()
    with started(elsewhere, "ledger", "--port", "0", "--chain-id", "4242", "--json") as chain:
        url = json.loads(read_until(chain, '"url"'))["url"]
        summary_of(home, "--ledger", url, "--key-file", str(key))


def test_a_port_in_use_is_named_before_anything_begins() -> None:
    base = free_base()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", base + 101))
        taken.listen()
        with pytest.raises(PortInUse, match=rf"^port {base + 101} of node2 is not to be had: .*--port 0 takes ports"):
            require_free(ports_from(base))
    require_free(ports_from(base))
