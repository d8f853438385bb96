"""Takes the picture of `rota demo` on a terminal, for the README: the coordinator is gone, and another has taken over.

A real demonstration runs meanwhile. `make screenshots` takes this picture, too; alone: python -m tools.demo_picture.
It needs Chromium.
"""

from __future__ import annotations

import asyncio
import base64
import sys
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rich.console import Console
from rich.terminal_theme import MONOKAI

from rota.demo.live import performed
from rota.demo.live_view import picture
from rota.demo.programme import Programme
from rota.demo.show import Show
from tests.server.dashboard.browser import Browser, browser, chromium_path

TARGET: Final = Path(__file__).parents[1] / "docs" / "pictures" / "demo.png"
COLUMNS: Final = 100
PAGE: Final = """<!doctype html><meta charset="utf-8">
<style>{stylesheet}
body {{ color: {foreground}; background: {background}; margin: 0; padding: 16px; display: inline-block; }}
pre {{ font: 14px/1.35 "DejaVu Sans Mono", monospace; margin: 0; }}</style>
<pre>{code}</pre>"""


async def take(chromium: Browser) -> None:
    """Perform, and keep the last picture of the time without the killed node."""
    programme = Programme(seconds=15)
    show = Show(programme, lambda _: None)
    shown = ""

    def refresh() -> None:
        nonlocal shown
        if show.phase.endswith(" is gone"):
            console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, highlight=False)
            console.print(picture(show))
            shown = console.export_html(theme=MONOKAI, code_format=PAGE)

    with TemporaryDirectory(prefix="rota-demo-") as folder:
        async with performed(Path(folder) / "network", programme, show, refresh):
            pass
    page = await chromium.open(f"data:text/html;base64,{base64.b64encode(shown.encode()).decode()}")
    wide, high = await page.evaluate("[document.body.offsetWidth, document.body.offsetHeight]")
    await page.resize(wide, high, scale=2.0)
    await page.screenshot(TARGET)


async def main() -> None:
    """With a browser of its own."""
    with TemporaryDirectory(prefix="rota-demo-picture-") as folder:
        async with browser(Path(folder)) as chromium:
            await take(chromium)


if __name__ == "__main__":
    if chromium_path() is None:
        sys.exit("There is no Chromium; tools/install-test-tools installs it, ROTA_CHROMIUM names another.")
    asyncio.run(main())
