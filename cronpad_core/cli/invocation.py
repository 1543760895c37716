"""What one call of ``cronpad`` was told by its global options, which may stand before or after the command's name."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import click
from click.core import ParameterSource

__all__ = ["Invocation", "graft", "global_options"]

COLORS: Final = ("auto", "always", "never")
LOG_FORMATS: Final = ("auto", "text", "json")


@dataclass(slots=True, kw_only=True)
class Invocation:
    """The global options. ``verbosity`` counts ``-v`` minus ``-q``; ``environ`` and ``now_ms`` are given by tests."""

    config: str | None = None
    state: str | None = None
    json: bool = False
    color: str = "auto"
    quiet: int = 0
    verbose: int = 0
    log_format: str = "auto"
    no_plugins: bool = False
    trace_plugins: bool = False
    plugins_dir: str | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    fixed_now_ms: int | None = None

    @property
    def verbosity(self) -> int:
        """Negative for less than usual, positive for more."""
        return self.verbose - self.quiet

    def now_ms(self) -> int:
        """The wall clock, for commands that need no engine."""
        if self.fixed_now_ms is not None:
            return self.fixed_now_ms
        return time.time_ns() // 1_000_000  # noqa: TID251  # no port is at hand in a command that starts no runtime


def global_options(*, hidden: bool) -> list[click.Option]:
    """Fresh option objects. Behind a command's name they are accepted but not listed."""

    def option(*names: str, **more: object) -> click.Option:
        return click.Option(names, callback=_store, expose_value=False, is_eager=True, hidden=hidden, **more)  # type: ignore[arg-type]  # as click's

    return [
        option("--config", metavar="FILE", help="Settings file (cronpad.toml)."),
        option("--state", metavar="DIR|URL", help="Where state is kept; ':memory:' keeps none."),
        option("--json", is_flag=True, help="Print one JSON document instead of text."),
        option("--color", type=click.Choice(COLORS), help="When to use colour."),
        option("-q", "--quiet", count=True, help="Say less on stderr."),
        option("-v", "--verbose", count=True, help="Say more on stderr."),
        option("--log-format", type=click.Choice(LOG_FORMATS), help="Shape of log lines."),
        option("--no-plugins", is_flag=True, help="Load no plugin but the core's own."),
        option("--plugins-dir", metavar="DIR", help="Load each Python file of this folder as a plugin."),
        option("--trace-plugins", is_flag=True, help="Print each hook call with its plugin and duration."),
    ]


def graft(command: click.Command) -> click.Command:
    """Makes a command, and those below it, take the global options too, where it has no option of that name itself."""
    taken = {name for one in command.params for name in (*one.opts, one.name)}
    for option in global_options(hidden=True):
        if not taken.intersection((*option.opts, option.name)):
            command.params.append(option)
    if isinstance(command, click.Group):
        for below in command.commands.values():
            graft(below)
    return command


def _store(context: click.Context, option: click.Parameter, value: object) -> None:
    invocation = context.find_root().ensure_object(Invocation)
    given = context.get_parameter_source(option.name or "") not in (None, ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
    if given and option.name is not None:
        setattr(invocation, option.name, value)
