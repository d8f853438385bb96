"""The page by itself: credentials, lost connections, narrow screens, keyboards, actions, and much at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Container
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pytest

from rota.model.types import IntentId, NodeName
from rota.rpc.credentials import Role, make_token
from rota.service.interface import Explanation, FeedUpdate, TransactionChange
from tests import bounds
from tests.server.dashboard.browser import LOOK_S, Page, browser, in_browser, needs_chromium
from tests.server.dashboard.kit import ScriptedNode, ScriptedTriggers, address, served_dashboard, summaries, updates
from tests.server.memory_node import BEGAN_MS, CONTRACT, QUESTION, MemoryConsents

pytestmark = [pytest.mark.slow, needs_chromium]

VIEWS: Final = ("network", "contract", "transaction", "automation", "commands", "node")
LIVE: Final = "document.getElementById('live').dataset.state === 'live'"
TASK_CPU_MAX_MS: Final = 50
TRANSACTIONS: Final = 10_000
CONTRACTS: Final = 1_000
INTENT: Final = IntentId(bytes(range(16)))
UUID: Final = "00010203-0405-0607-0809-0a0b0c0d0e0f"


@dataclass
class LateNode(ScriptedNode):
    """Sends an update without contracts and peers, and the snapshot once `reports` is set."""

    reports: asyncio.Event = field(default_factory=asyncio.Event)

    async def watch(self, interval_ms: int, opened: Container[IntentId] = ()) -> AsyncIterator[FeedUpdate]:
        yield FeedUpdate(0, BEGAN_MS, 250)
        await self.reports.wait()
        async for update in ScriptedNode.watch(self, interval_ms, opened):
            yield update


@asynccontextmanager
async def live_page(node: ScriptedNode, profile: Path, place: str = "") -> AsyncIterator[Page]:
    """The dashboard of a node in a browser, at this place in it, when it follows the node."""
    async with served_dashboard(node) as entrance, browser(profile) as chromium:
        page = await chromium.open(f"{entrance.http_url}/dashboard{place}")
        await page.until(LIVE)
        yield page


async def show(page: Page, view: str) -> None:
    """Go there, and wait until it is there."""
    await page.evaluate(f"location.hash = '#/{view}'")
    await page.until(f"document.getElementById('view-{view}')")


async def focused(page: Page) -> str:
    """What the keyboard would act on."""
    return str(await page.evaluate("(document.activeElement?.textContent ?? '').trim() || document.activeElement?.id"))


@in_browser
async def test_a_wrong_token_is_told_and_not_tried_again_and_the_right_one_is_let_in(tmp_path: Path) -> None:
    token, credential = make_token("viewer", frozenset({Role.READ}))
    async with AsyncExitStack() as stack:
        node = ScriptedNode(summaries=summaries(2))
        entrance = await stack.enter_async_context(served_dashboard(node, (credential,)))
        chromium = await stack.enter_async_context(browser(tmp_path))
        page = await chromium.open(f"{entrance.http_url}/dashboard")
        await page.until("document.activeElement?.id === 'token'")
        assert await page.evaluate("document.getElementById('sign-in-flaw').textContent") == ""
        await page.type("not this one")
        await page.press("Enter")
        assert "these credentials are not known here" in await page.text("#sign-in-flaw")
        assert await page.evaluate("sessionStorage.length + localStorage.length") == 0
        assert not node.followers
        await page.until("document.activeElement?.id === 'token'")
        await page.type(token)
        await page.press("Enter")
        await page.until(LIVE)
        await page.until("document.getElementById('contract-count').textContent === '2'")
        assert token not in await page.evaluate("location.href + document.cookie + JSON.stringify(localStorage)")
        # A viewer may look and not touch.
        await show(page, "automation")
        await page.until("document.querySelector('[data-name=advance-epochs] [data-action=pause]')?.disabled")
        await show(page, "node")
        assert "operate" in await page.text("#settings-flaw")
        await page.click("#leave")
        await page.until("document.getElementById('token')")
        assert await page.evaluate("sessionStorage.length") == 0
        assert page.errors == []


@in_browser
async def test_a_lost_connection_is_shown_and_comes_back_by_itself(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        node = ScriptedNode(summaries=summaries(3))
        chromium = await stack.enter_async_context(browser(tmp_path))
        async with served_dashboard(node) as entrance:
            port = entrance.ports["http"]
            page = await chromium.open(f"{entrance.http_url}/dashboard")
            await page.until(LIVE)
            await page.until("document.getElementById('contract-count').textContent === '3'")
        await page.until("document.getElementById('live').dataset.state === 'away'")
        await page.until("document.getElementById('problems').textContent.includes('does not reach its node')")
        await page.until("document.getElementById('announcer').textContent.includes('does not reach its node')")
        assert await page.text("#contract-count") == "3"
        assert "who coordinates is unknown" in await page.text("#verdict")
        node.summaries = summaries(5)
        async with served_dashboard(node, port=port):
            await page.until(LIVE)
            await page.until("document.getElementById('contract-count').textContent === '5'")
            await page.until("!document.getElementById('problems').textContent.includes('does not reach')")
        assert page.errors == []


@in_browser
async def test_page_gives_no_verdict_before_the_node_has_reported(tmp_path: Path) -> None:
    node = LateNode(summaries=summaries(3))
    async with live_page(node, tmp_path) as page:
        await page.until("document.getElementById('verdict').textContent.startsWith('Loading')")
        await page.until("document.getElementById('node-name').textContent !== ''")
        assert "well" not in await page.text("#verdict")
        node.reports.set()
        await page.until("document.getElementById('verdict').textContent.includes('is well. 4 nodes, 3 contracts')")
        assert page.errors == []


@in_browser
async def test_no_view_is_wider_than_a_narrow_screen(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        entrance = await stack.enter_async_context(served_dashboard(ScriptedNode(summaries=summaries(30))))
        chromium = await stack.enter_async_context(browser(tmp_path))
        page = await chromium.open(f"{entrance.http_url}/dashboard")
        await page.resize(360, 740)
        await page.until(LIVE)
        for view in VIEWS:
            await show(page, view)
            await page.until("document.documentElement.scrollWidth <= innerWidth")
            sizes = await page.evaluate(
                "[...document.querySelectorAll('main button, nav a')].filter((each) => each.offsetParent)"
                ".map((each) => each.getBoundingClientRect().right).filter((right) => right > 2 * innerWidth)"
            )
            assert sizes == [], view
        assert page.errors == []


@in_browser
async def test_everything_is_reached_and_named_with_a_keyboard_alone(tmp_path: Path) -> None:
    node = ScriptedNode(summaries=summaries(30))
    async with live_page(node, tmp_path) as page:
        await page.press("Tab")
        assert await focused(page) == "Skip to the content"
        for _ in range(5):
            await page.press("Tab")
        assert await focused(page) == "Automation"
        await page.press("Enter")
        await page.until("document.querySelector('[data-name=advance-epochs] [data-action=pause]:enabled')")
        assert await page.evaluate("document.activeElement.id") == "main"
        await page.press("Tab")
        assert await focused(page) == "Pause"
        # It asks first; Escape leaves all as it was, and the focus where it was.
        await page.press("Enter")
        await page.until("document.querySelector('dialog[open]')")
        assert await focused(page) == "Leave it"
        await page.press("Escape")
        await page.until("!document.querySelector('dialog')")
        assert not is_paused(node)
        await page.press("Enter")
        await page.until("document.querySelector('dialog[open]')")
        await page.press("Tab")
        assert await focused(page) == "Pause advance-epochs"
        await page.press("Enter")
        await page.until("document.querySelector('[data-name=advance-epochs] .state-word').textContent === 'paused'")
        assert is_paused(node)
        # From the list of contracts to one of them.
        await show(page, "network")
        await page.evaluate("document.querySelector('.virtual').focus()")
        await page.press("ArrowDown")
        await page.press("ArrowDown")
        await page.press("Enter")
        await page.until("location.hash.startsWith('#/contract/0x')")
        for view in VIEWS:
            await show(page, view)
            nameless = await page.evaluate(NAMELESS)
            assert nameless == [], view
        assert page.errors == []


@in_browser
async def test_operator_accepts_a_contract_that_waits_for_consent(tmp_path: Path) -> None:
    consents = MemoryConsents([QUESTION, replace(QUESTION, proposer=NodeName("node3"))])
    async with live_page(ScriptedNode(consents=consents), tmp_path, "#/node") as page:
        await page.until("document.querySelectorAll('#consents li').length === 2")
        shown = await page.evaluate("document.querySelector('#consents li').textContent")
        assert "pente, proposed by node2: this node would endorse and coordinate." in shown
        assert "Members: a@node1, b@node2 and 1 more." in shown
        await page.evaluate("document.querySelector('#consents [data-action=accept]').click()")
        await page.until("document.querySelector('dialog[open]')")
        await page.evaluate("document.getElementById('ask-yes').click()")
        await page.until("document.querySelectorAll('#consents li').length === 1")
        assert consents.decided == [("node2", QUESTION.deployment, None)]
        await page.evaluate("document.querySelector('#consents [data-action=refuse]').click()")
        await page.until("document.querySelector('dialog[open]')")
        await page.evaluate("document.getElementById('ask-yes').click()")
        await page.until("document.getElementById('consents').closest('section').hidden")
        assert consents.decided[1] == ("node3", QUESTION.deployment, "")
        assert page.errors == []


def is_paused(node: ScriptedNode) -> bool:
    triggers = node.triggers
    assert isinstance(triggers, ScriptedTriggers)
    return triggers.paused


# Whatever can be acted on has a name that a screen reader can say.
NAMELESS: Final = """
[...document.querySelectorAll('a, button, input, select, [role=img], [role=region], [role=list]')]
  .filter((each) => each.checkVisibility() && !each.closest('[aria-hidden=true]'))
  .filter((each) => !(each.getAttribute('aria-label') || each.textContent.trim() || each.labels?.length))
  .map((each) => each.outerHTML.slice(0, 120))
"""


CALL = {"type": "private", "from": "alice", "to": CONTRACT, "function": "transfer", "data": {"amount": 5}}
BODY = {"jsonrpc": "2.0", "id": 1, "method": "ptx_sendTransaction", "params": [CALL]}
SEND = f"fetch('/', {{method: 'POST', body: {json.dumps(json.dumps(BODY))}}}).then((answer) => answer.json())"


async def send_and_show(page: Page) -> None:
    """A transaction, and the page at it."""
    sent = await page.evaluate(SEND)
    await page.evaluate(f"location.hash = '#/transaction/{sent['result']}'")


@in_browser
async def test_a_transaction_is_cancelled_only_when_it_was_asked_and_answered(tmp_path: Path) -> None:
    node = ScriptedNode()
    async with live_page(node, tmp_path) as page:
        await send_and_show(page)
        assert "its delegation to be accepted" in await page.text("#waits")
        assert "node2" in await page.text("#waits")
        await page.until("document.getElementById('resume').disabled")
        await page.click("#cancel")
        await page.click("#ask-no")
        await page.until("!document.querySelector('dialog')")
        (kept,) = node.kept.values()
        assert kept.state == "Pending"
        await page.click("#cancel")
        await page.click("#ask-yes")
        await page.until("document.querySelector('#standing .state-word').textContent === 'reverted'")
        assert kept.state == "Reverted"
        assert page.errors == []


class EndsMeanwhile(ScriptedNode):
    """A transaction ends when it has been explained, before its receipt is asked for."""

    async def explain(self, intent: IntentId) -> Explanation | None:
        explained = await super().explain(intent)
        if explained is not None and explained.state == "Pending":
            await self.cancel(intent)
        return explained


@in_browser
async def test_what_is_explained_of_a_transaction_is_as_late_as_its_receipt(tmp_path: Path) -> None:
    async with live_page(EndsMeanwhile(), tmp_path) as page:
        await send_and_show(page)
        await page.until("document.querySelector('#standing .state-word')?.textContent === 'reverted'")
        assert page.errors == []


@in_browser
async def test_under_load_the_page_says_how_many_it_shows_and_the_one_that_is_looked_at_is_followed(
    tmp_path: Path,
) -> None:
    node = ScriptedNode(summaries=summaries(1))
    async with live_page(node, tmp_path, "#/transaction") as page:
        told = [TransactionChange(IntentId(bytes([each]) * 16), BEGAN_MS, address(0), "accepted") for each in (1, 2)]
        node.tell(FeedUpdate(2, BEGAN_MS, 251, transactions=tuple(told)))
        await page.until("document.getElementById('transaction-count').textContent === '2 shown'")
        given_up = replace(told[0], milestone="", is_given_up=True)
        node.tell(FeedUpdate(3, BEGAN_MS, 252, transactions=(given_up,), transactions_omitted=1_310))
        await page.until("document.getElementById('transaction-count').textContent === '2 shown of 1,312 that went by'")
        assert "no longer followed" in await page.text("#view-transaction .virtual")
        await page.evaluate(f"location.hash = '#/transaction/{UUID}'")
        await until(lambda: INTENT in node.opened)
        await show(page, "network")
        await until(lambda: INTENT not in node.opened)
        assert page.errors == []


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(bounds.WAIT_S):
        while not holds():
            await asyncio.sleep(LOOK_S)


@in_browser
async def test_what_a_node_tells_is_shown_as_text(tmp_path: Path) -> None:
    node = ScriptedNode(summaries=summaries(1), missing=("<img src=x onerror=alert(1)>",))
    async with live_page(node, tmp_path) as page:
        await page.until("document.getElementById('problems').textContent.includes('<img src=x')")
        assert await page.evaluate("document.querySelectorAll('img').length") == 0


@in_browser
async def test_no_task_is_long_with_ten_thousand_transactions_and_a_thousand_contracts(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        node = ScriptedNode(summaries=summaries(CONTRACTS))
        entrance = await stack.enter_async_context(served_dashboard(node))
        chromium = await stack.enter_async_context(browser(tmp_path))
        page = await chromium.open(f"{entrance.http_url}/dashboard")
        await page.until(LIVE)
        await page.until("document.getElementById('contract-count').textContent === '1,000'")
        chromium.traced.clear()
        await page.call(
            "Tracing.start",
            traceConfig={"includedCategories": ["toplevel", "disabled-by-default-devtools.timeline"]},
            transferMode="ReportEvents",
        )
        script = list(updates(TRANSACTIONS, CONTRACTS, 1_000))
        for number, update in enumerate(script):
            node.tell(update)
            view = VIEWS[number * len(VIEWS) // len(script) % 3]
            await page.evaluate(f"location.hash = '#/{view}'")
            await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        await show(page, "transaction")
        await page.until("document.getElementById('transaction-count').textContent.startsWith('10,000')")
        await page.evaluate("document.querySelector('#view-transaction .virtual').scrollTop = 200000")
        await page.until("document.querySelector('#view-transaction [aria-posinset=\"5001\"]')")
        await page.call("Tracing.end")
        await asyncio.wait_for(chromium.trace_ended.wait(), bounds.WAIT_S)
        tasks = [task for task in longest_tasks(chromium.traced) if task[0] > TASK_CPU_MAX_MS]
        assert tasks == []
        assert await page.evaluate("document.querySelectorAll('*').length") < 3_000
        # Memory is bounded: as much again, and nothing more is held.
        for update in updates(TRANSACTIONS + 5_000, CONTRACTS, 1_000):
            if update.transactions[0].id >= IntentId(TRANSACTIONS.to_bytes(16, "big")):
                node.tell(update)
        last = FeedUpdate(9_999, BEGAN_MS + 10**9, 99_999, transactions=(TransactionChange(INTENT, BEGAN_MS),))
        node.tell(last)
        await page.until("document.getElementById('height').textContent === 'block 99,999'")
        await page.until("document.getElementById('transaction-count').textContent.startsWith('10,000')")
        assert page.errors == []


def longest_tasks(traced: list[dict[str, Any]]) -> list[tuple[float, str]]:
    """Tasks of the page's own thread by what they cost, in milliseconds of the processor: of a busy machine too."""
    threads = {
        (event["pid"], event["tid"])
        for event in traced
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks = [
        (event.get("tdur", 0) / 1_000, event["name"])
        for event in traced
        if event["ph"] == "X" and event["name"].endswith("RunTask") and (event["pid"], event["tid"]) in threads
    ]
    assert tasks, "the run was recorded"
    return sorted(tasks, reverse=True)
