"""``cronpad version``."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Output

__all__ = ["command"]


@click.command()
@click.pass_obj
def command(invocation: Invocation) -> None:
    """Versions of cronpad and of what its behaviour depends on."""
    out = Output(invocation)
    versions = {
        "cronpad-core": _version("cronpad-core"),
        "Python": platform.python_version(),
        "tzdata": _version("tzdata"),
        "platform": platform.platform(terse=True),
    }
    if out.wants_json:
        out.document("version", [{"name": name, "version": found} for name, found in versions.items()])
        return
    out.line(f"cronpad {versions.pop('cronpad-core')}")
    if invocation.verbosity > 0:
        for name, found in versions.items():
            out.line(f"{name} {found}")


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "(not installed)"
