"""The tutorial's code runs as it is printed: in the simulator, and plans of transactions on real nodes."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import sys
from collections.abc import Generator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from rota import host
from rota.host import AnyDomain
from rota.ledger.bindings import deploy_endorsed
from rota.ledger.hexadecimal import data
from rota.model.genesis import encode_genesis, genesis_hash
from rota.model.types import ContractAddress, IntentId, NodeName, Outcome, Party
from rota.service.explain.interface import Explanation
from rota.testing import Scene, UserCall, Workload, findings, simulate
from tests.ledger.chains import in_loop
from tests.service.kit import CHAIN_ID, Network, network, send

PAGE = Path(__file__).parents[2] / "docs" / "domains.md"


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_domain_has_fifty_lines_at_most() -> None:
    assert len(blocks()[0].splitlines()) <= 50


@pytest.mark.slow
def test_the_domain_of_the_tutorial_holds_under_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = imported(tmp_path, monkeypatch)
    reports = module.reports
    assert len(reports) == 3
    assert all(report.confirmed > 10 for report in reports)


def vouchers(scene: Scene) -> Generator[UserCall, IntentId | None, None]:
    while True:
        sender = Party(f"clerk@{scene.random.choice(scene.nodes)}")
        amount = scene.random.choice((1, 5, 50, 500))
        yield UserCall(sender, "issue", {"owner": f"owner@{scene.random.choice(scene.nodes)}", "amount": amount})


@pytest.mark.slow
def test_planned_vouchers_of_the_tutorial_hold_under_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = imported(tmp_path, monkeypatch)
    club = {"members": ["clerk@A", "clerk@B"], "auditor": "auditor@C", "limit": 10}
    workload = Workload(Party("clerk@A"), club, vouchers, lambda _: ())
    reports = simulate(module.Vouchers(), workload, seeds=range(3), minutes=0.2)
    assert not findings(reports), findings(reports)
    assert all(report.confirmed > 10 for report in reports)


NODE1, NODE2, NODE3 = ALL = tuple(map(NodeName, ("node1", "node2", "node3")))
CLERK, AUDITOR = Party("clerk@node1"), Party("auditor@node3")


async def deployed(nodes: Network, domain: AnyDomain) -> ContractAddress:
    """Vouchers that two of three nodes endorse, and of which node3 approves the large ones."""
    club = {"members": [CLERK, "clerk@node2"], "auditor": AUDITOR, "limit": 10}
    wanted = host.deploy(domain, club, CLERK)
    genesis = host.genesis_of(domain, wanted, host.ContractDefaults(CHAIN_ID), bytes(32))
    encoded, intent = nodes.deployed = encode_genesis(genesis), IntentId(b"vouchers........")
    signers = [await nodes.processes[name].facade.endorser_address(intent) for name in ALL]
    call = deploy_endorsed(intent, genesis_hash(encoded), tuple(signers), 2)
    await send(nodes.client, {"to": nodes.factory, "data": data(call)})
    addresses = [await nodes.take_in(name) for name in ALL]
    return addresses[0]


@pytest.mark.slow
@in_loop
async def test_large_voucher_is_committed_only_with_the_approval_of_the_auditor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On real nodes: the auditor's is down, and two of three sign small vouchers meanwhile."""
    module = imported(tmp_path, monkeypatch, reports=False)
    entry = EntryPoint("vouchers", "deeds:Vouchers", host.ENTRY_POINTS)
    monkeypatch.setattr(host, "entry_points", lambda **_: [entry])
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        contract = await deployed(nodes, module.Vouchers())

        async def issue(amount: int) -> IntentId:
            return await nodes.submit(NODE1, contract, "issue", ["bob@node2", amount], sender="clerk")

        assert (await nodes.final(NODE1, await issue(500))).outcome is Outcome.CONFIRMED
        await nodes.kill(NODE3)
        large, small = await issue(500), await issue(5)
        assert (await nodes.final(NODE1, small)).outcome is Outcome.CONFIRMED
        facade = nodes.processes[NODE1].facade

        async def until_explained() -> Explanation:
            while (told := await facade.explain(large)) is None or [each.node for each in told.missing] != [NODE3]:
                await asyncio.sleep(0.005)
            return told

        explained = await until_explained()
        assert explained.blocked_by == (NODE3,)
        assert "approval" in explained.waits_for
        assert (await nodes.final(NODE1, await issue(7))).outcome is Outcome.CONFIRMED
        await nodes.start(NODE3)
        assert (await nodes.final(NODE1, large)).outcome is Outcome.CONFIRMED


def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, reports: bool = True) -> ModuleType:
    """All code of the page as one module; without `reports` nothing is simulated."""
    path = tmp_path / "deeds.py"
    path.write_text("\n".join(blocks() if reports else blocks()[:2]), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("deeds", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "deeds", module)
    spec.loader.exec_module(module)
    return module
