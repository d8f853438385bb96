"""`rota ledger` and `rota bench ledger`, as a user starts them."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner

from rota.cli.main import main
from tests import bounds

WAIT_S = bounds.WAIT_S
ROTA = (sys.executable, "-c", "from rota.cli.main import main; main()")


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*ROTA, "ledger", "--port", "0", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def rest(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code, and what it still printed, until it ended."""
    assert process.stdout is not None
    assert process.stderr is not None
    output, errors = process.stdout.read(), process.stderr.read()
    return process.wait(timeout=WAIT_S), output, errors


@pytest.mark.slow
def test_gas_may_cost_nothing() -> None:
    with started("--json", "--free-gas") as process:
        url = json.loads(first_line(process))["url"]
        body = b'{"jsonrpc":"2.0","id":1,"method":"eth_gasPrice"}'
        with urlopen(Request(url, data=body), timeout=WAIT_S) as response:
            assert json.load(response)["result"] == "0x0"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_chain_is_served_until_it_is_told_to_stop(number: signal.Signals) -> None:
    with started("--json", "--chain-id", "77", "--accounts", "2", "--block-time-ms", "60000", "--instant") as process:
        description = json.loads(first_line(process))
        assert description["chain_id"] == 77
        assert (description["instant"], description["block_time_ms"]) == (True, 60_000)
        assert [account["address"] for account in description["accounts"]] == [
            "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266",
            "0x70997970c51812dc3a010c7d01b50e0d17dc79c8",
        ]
        assert description["url"].startswith("http://127.0.0.1:")
        body = b'{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}'
        with urlopen(Request(description["url"], data=body), timeout=WAIT_S) as response:
            assert json.load(response)["result"] == "0x4d"
        process.send_signal(number)
        assert rest(process) == (0, "", "")


@pytest.mark.slow
def test_a_person_is_told_where_it_listens_and_with_which_accounts() -> None:
    with started("--accounts", "1") as process:
        assert "Chain 31337 listens on http://127.0.0.1:" in first_line(process)
        process.send_signal(signal.SIGINT)
        code, text, _ = rest(process)
        assert code == 0
        assert "Blocks come as soon as transactions arrive." in text
        assert "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266  0xac0974bec39a17e36ba4a6b4d238ff94" in text
        assert "0x70997970" not in text


@pytest.mark.slow
def test_a_port_in_use_is_one_clear_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        process = subprocess.run(
            [*ROTA, "ledger", "--port", port], capture_output=True, text=True, timeout=WAIT_S, check=False
        )
    assert process.returncode == 1
    assert process.stdout == ""
    (line,) = process.stderr.splitlines()
    assert line.startswith(f"Error: Cannot listen on 127.0.0.1 port {port}: ")
    assert line.endswith("Choose another with --host and --port.")


@pytest.mark.parametrize(
    "arguments", [["--port", "65536"], ["--block-time-ms", "0"], ["--accounts", "11"], ["--chain-id", "0"], ["extra"]]
)
def test_wrong_use_is_told_before_anything_starts(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, ["ledger", *arguments])
    assert result.exit_code == 2
    assert "Usage:" in result.output


@pytest.mark.slow
def test_the_benchmark_measures_the_chain_in_process_and_over_http(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Where there is no Anvil, there is no figure of one.
    monkeypatch.delenv("ROTA_ANVIL", raising=False)
    monkeypatch.setattr("rota.localnet.chains._INSTALLED", tmp_path)
    result = CliRunner().invoke(main, ["bench", "ledger", "--json", "--calls", "20"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert figures["anvil"] is None
    for chain in ("embedded", "embedded_http"):
        assert figures[chain]["calls"] == 20
        assert figures[chain]["calls_per_s"] > 0
        assert figures[chain]["gas_per_call"] == 148_000
        assert figures[chain]["blocks"] == 1
