"""How benchmarks print: tables for people, one JSON object for programs."""

from __future__ import annotations

import json
import platform
import sys
from os import cpu_count
from typing import Final

import click

FIGURE_DIGITS: Final = 4

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")


def tell_progress(text: str) -> None:
    """Print the next measurement for the user who waits."""
    click.echo(f"measuring {text} ...", err=True)


def print_json(figures: dict[str, object]) -> None:
    """One object."""
    click.echo(json.dumps(rounded(figures), indent=2))


def describe_machine() -> dict[str, object]:
    """What the figures depend on besides Rota."""
    return {
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "system": f"{platform.system()} {platform.machine()}",
        "processors": cpu_count(),
    }


def rounded(value: object) -> object:
    """Four digits: more would be noise."""
    match value:
        case float():
            return float(f"{value:.{FIGURE_DIGITS}g}")
        case dict():
            return {key: rounded(inner) for key, inner in value.items()}
        case list() | tuple():
            return [rounded(inner) for inner in value]
        case _:
            return value
