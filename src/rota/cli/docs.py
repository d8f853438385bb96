"""`rota docs`: writes the documents that are generated from the code, or lists the stale ones."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from rota.cli.command_pages import render_commands
from rota.cli.command_tree import render_completions
from rota.cli.completion import COMPLETIONS
from rota.cli.event_pages import render_events
from rota.cli.machine_pages import UndocumentedError, render_pages
from rota.cli.method_pages import NoExampleError, render_methods
from rota.cli.metric_pages import render_metrics
from rota.cli.parameters import json_option
from rota.server.configuration import render_reference

SOURCES: Final = Path("src", "rota")  # what tells a checkout of Rota from any other folder


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a document is missing or out of date.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Use this folder instead of the checkout's docs/.",
)
@json_option
def command(check: bool, out: Path | None, as_json: bool) -> None:
    """Write the documents that are generated from the code: machines, methods, settings, metrics, log events,
    commands.

    In a checkout also what the shell completes of commands, which is in the package.

    \b
    Example:
      rota docs
      rota docs --check
      rota docs --out ./pages

    Exit 0: written, or with --check up to date. 1: stale, or a docstring or an example is missing. 2: wrong use.
    """
    docs = out if out is not None else docs_of_checkout(Path.cwd())
    try:
        machines = {docs / "machines" / name: text for name, text in render_pages().items()}
    except UndocumentedError as error:
        raise click.ClickException(f"{error}; the machines' pages quote it.") from error
    try:
        methods = render_methods()
    except NoExampleError as error:
        raise click.ClickException(f"{error}.") from error
    references = {
        "configuration.md": render_reference(),
        **methods,
        "metrics.md": render_metrics(),
        "events.md": render_events(),
        "cli.md": render_commands(),
    }
    pages = {**machines, **{docs / name: text for name, text in references.items()}}
    if out is None:
        pages[docs.parent / SOURCES / "cli" / COMPLETIONS] = render_completions()
    stale = stale_pages(pages)
    if not check:
        write(stale)
    if as_json:
        click.echo(json.dumps({"pages": len(pages), "stale": [str(path) for path in stale]}))
    elif not check:
        click.echo(f"{docs}: {len(pages)} pages, of which {len(stale)} were stale and are written again.")
    elif stale:
        for path in stale:
            click.echo(f"{path} is stale", err=True)
        click.echo("Run `make docs` to bring the generated documents up to date.", err=True)
    if check and stale:
        click.get_current_context().exit(1)


def docs_of_checkout(start: Path) -> Path:
    """The docs/ of the checkout that `start` lies in, whether or not it has been written yet."""
    for folder in (start, *start.parents):
        if (folder / SOURCES).is_dir():
            return folder / "docs"
    raise click.UsageError(f"{start} is not inside a checkout of Rota. Go to one, or name a folder with --out.")


def stale_pages(pages: Mapping[Path, str]) -> Mapping[Path, str]:
    """Those that are missing or differ."""
    return {path: text for path, text in pages.items() if not path.is_file() or path.read_bytes() != text.encode()}


def write(pages: Mapping[Path, str]) -> None:
    for path, text in pages.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
