"""`python -m tools.site`: builds the documentation site in build/site and checks it (`staging`, `links`, `search`).

Every warning of Sphinx is an error: a heading that is missing, a page that no table of contents has, a code block that
does not read as its language. Nothing is fetched, neither by the build nor by whoever reads the pages.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import click

from tools.site.links import judge
from tools.site.search import search_faults
from tools.site.staging import method_pages, stage

ROOT: Final = Path(__file__).parents[2]
BUILD: Final = ROOT / "build"
SITE: Final = BUILD / "site"
STAGED: Final = BUILD / "site-source"
READ: Final = BUILD / "site-read"  # what Sphinx notes; made anew, as it warns only of pages that it reads
ELSEWHERE: Final = BUILD / "site-elsewhere.txt"


@click.command()
@click.option("--sphinx", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Its sphinx-build.")
def main(sphinx: Path) -> None:
    """Build the documentation site, and fail if anything on it leads nowhere or comes from elsewhere."""
    stage(ROOT, STAGED)
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.rmtree(READ, ignore_errors=True)
    configuration = Path(__file__).parent
    build = [str(sphinx), "-q", "-W", "--keep-going", "-n", "-c", str(configuration), "-d", str(READ)]
    done = subprocess.run([*build, str(STAGED), str(SITE)], cwd=ROOT)
    if done.returncode:
        sys.exit(done.returncode)
    verdict = judge(SITE)
    lines = [f"{link}  ({', '.join(pages)})\n" for link, pages in sorted(verdict.elsewhere.items())]
    ELSEWHERE.write_text("".join(lines), encoding="utf-8")
    faults = [*verdict.faults, *search_faults(SITE, method_pages(ROOT), ROOT)]
    for fault in faults:
        click.echo(fault, err=True)
    if faults:
        sys.exit(1)
    count = len(list(SITE.rglob("*.html")))
    click.echo(f"{SITE.relative_to(ROOT)}/index.html: {count} pages, every link and anchor leads somewhere, nothing is")
    click.echo(
        f"fetched from elsewhere. {len(lines)} links to other sites, not followed: {ELSEWHERE.relative_to(ROOT)}"
    )


if __name__ == "__main__":
    main()
