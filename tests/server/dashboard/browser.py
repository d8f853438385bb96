"""A real Chromium without a window, driven over its DevTools protocol.

    async with browser(tmp_path) as chromium:
        page = await chromium.open("http://127.0.0.1:31548/dashboard")
        await page.until("document.title !== ''")

The browser chooses its own port, has a profile of its own, and is ended by its process id. Where there is none the
test is skipped, which CI forbids; `ROTA_CHROMIUM` names one that lies elsewhere.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from tests import bounds

WAIT_S: Final = bounds.WAIT_S
LOOK_S: Final = 0.05
STOP_S: Final = 10.0
TEST_TIMEOUT_S: Final = bounds.TEST_TIMEOUT_S
MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS: Final = (
    "--headless=new",
    "--remote-debugging-port=0",
    "--no-sandbox",  # CI runs as root, where Chromium has no sandbox
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--window-size=1280,900",
)
KEYS: Final = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38}


def chromium_path() -> str | None:
    """Where it is, if it is there."""
    named = os.environ.get("ROTA_CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


needs_chromium = pytest.mark.skipif(
    chromium_path() is None, reason="there is no Chromium: see tools/install-test-tools"
)


class PageError(AssertionError):
    """The page threw, or does not come to what it should."""


class Page:
    """One tab."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser: Final = browser
        self._session: Final = session
        self.errors: Final[list[str]] = []

    async def call(self, method: str, **params: object) -> dict[str, Any]:
        """A method of the protocol, for this tab."""
        return await self._browser.call(method, self._session, **params)

    async def evaluate(self, expression: str) -> Any:  # noqa: ANN401  # whatever the page answers
        """The value of an expression in the page; promises are waited for."""
        answer = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True
        )
        if "exceptionDetails" in answer:
            raise PageError(json.dumps(answer["exceptionDetails"])[:2_000])
        return answer["result"].get("value")

    async def until(self, expression: str) -> Any:  # noqa: ANN401
        """Its value once it is true."""
        value: Any = None
        for _ in range(int(WAIT_S / LOOK_S)):
            value = await self.evaluate(f"((found) => found instanceof Node || found)({expression})")
            if value:
                return value
            await asyncio.sleep(LOOK_S)
        shown = await self.evaluate("document.body.innerText")
        raise PageError(f"{expression} stays {value!r}; errors {self.errors}; the page shows:\n{shown[:3_000]}")

    async def text(self, selector: str) -> str:
        """What stands there, once it is there."""
        found = await self.until(f"document.querySelector({json.dumps(selector)})?.textContent.trim()")
        return str(found)

    async def click(self, selector: str) -> None:
        """As a mouse does, once it can be."""
        quoted = json.dumps(selector)
        await self.until(f"document.querySelector({quoted}) && !document.querySelector({quoted}).disabled")
        place = await self.evaluate(
            f"(() => {{ const e = document.querySelector({quoted}); e.scrollIntoView({{block: 'center'}});"
            "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    async def press(self, key: str, *, shift: bool = False) -> None:
        """A key that is not a character."""
        for kind in ("rawKeyDown", "keyUp"):
            more = {"text": "\r"} if key == "Enter" and kind == "rawKeyDown" else {}
            await self.call(
                "Input.dispatchKeyEvent",
                type="keyDown" if more else kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=KEYS[key],
                modifiers=8 if shift else 0,
                **more,
            )

    async def type(self, text: str) -> None:
        """Into what has the focus."""
        await self.call("Input.insertText", text=text)

    async def resize(self, width: int, height: int, scale: float = 1.0) -> None:
        """As on a screen of this size."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False
        )

    async def prefer(self, scheme: str) -> None:
        """`light` or `dark`."""
        await self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    async def screenshot(self, path: Path) -> None:
        """What is seen, as PNG."""
        answer = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(answer["data"]))


class Browser:
    """The process, and the one WebSocket to it."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket: Final = socket
        self._ids: Final = itertools.count(1)
        self._waiting: Final[dict[int, asyncio.Future[dict[str, Any]]]] = {}
        self._pages: Final[dict[str, Page]] = {}
        self.traced: Final[list[dict[str, Any]]] = []
        self.trace_ended: Final = asyncio.Event()
        self._reading: Final = asyncio.create_task(self._read())

    async def call(self, method: str, session: str | None = None, **params: object) -> dict[str, Any]:
        """A method of the protocol."""
        number = next(self._ids)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        said: dict[str, object] = {"id": number, "method": method, "params": params}
        if session is not None:
            said["sessionId"] = session
        await self._socket.send_str(json.dumps(said))
        async with asyncio.timeout(WAIT_S):
            told = await answer
        if "error" in told:
            raise PageError(f"{method}: {told['error']}")
        result: dict[str, Any] = told["result"]
        return result

    async def open(self, url: str) -> Page:
        """A tab that shows this."""
        target = await self.call("Target.createTarget", url="about:blank")
        attached = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        page = self._pages[attached["sessionId"]] = Page(self, attached["sessionId"])
        for method in ("Page.enable", "Runtime.enable", "Log.enable"):
            await page.call(method)
        await page.call("Page.navigate", url=url)
        await page.until("document.readyState === 'complete'")
        return page

    async def close(self) -> None:
        """Hear no more."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self) -> None:
        async for message in self._socket:
            said = json.loads(message.data)
            if "id" in said:
                answer = self._waiting.pop(said["id"], None)
                if answer is not None and not answer.done():
                    answer.set_result(said)
            elif said["method"] == "Tracing.dataCollected":
                self.traced.extend(said["params"]["value"])
            elif said["method"] == "Tracing.tracingComplete":
                self.trace_ended.set()
            elif said.get("sessionId") in self._pages:
                self._note(self._pages[said["sessionId"]], said)

    def _note(self, page: Page, said: dict[str, Any]) -> None:
        """What a page throws, and what its security policy refuses."""
        if said["method"] == "Runtime.exceptionThrown":
            page.errors.append(json.dumps(said["params"]["exceptionDetails"])[:1_000])
        elif said["method"] == "Log.entryAdded":
            entry = said["params"]["entry"]
            if entry["level"] == "error" and entry["source"] == "security":
                page.errors.append(entry["text"])


@asynccontextmanager
async def browser(profile: Path) -> AsyncIterator[Browser]:
    """One that runs until the block ends."""
    path = chromium_path()
    assert path is not None, "a test that needs it is skipped without it"
    profile.mkdir(parents=True, exist_ok=True)
    log = (profile / "log").open("wb")
    process = await asyncio.create_subprocess_exec(
        path, *ARGUMENTS, f"--user-data-dir={profile}", "about:blank", stdout=log, stderr=log
    )
    try:
        address = await _address(profile / "DevToolsActivePort", process)
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(address, max_msg_size=MESSAGE_BYTES_MAX) as socket,
        ):
            made = Browser(socket)
            try:
                yield made
            finally:
                with suppress(Exception):
                    await made.call("Browser.close")
                await made.close()
    finally:
        await _end(process)
        log.close()


async def _address(file: Path, process: asyncio.subprocess.Process) -> str:
    for _ in range(int(WAIT_S / LOOK_S)):
        lines = file.read_text().split() if file.exists() else []
        if len(lines) == 2:
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        assert process.returncode is None, f"Chromium ended: {(file.parent / 'log').read_text()[-2_000:]}"
        await asyncio.sleep(LOOK_S)
    raise AssertionError("Chromium does not say where it listens")


async def _end(process: asyncio.subprocess.Process) -> None:
    try:
        async with asyncio.timeout(STOP_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def in_browser(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own; one that hangs fails."""

    @wraps(test)
    def run(*arguments: object, **named: object) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(TEST_TIMEOUT_S):
                await test(*arguments, **named)

        asyncio.run(bounded())

    return run
