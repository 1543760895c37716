"""``cronpad init``."""

from __future__ import annotations

from pathlib import Path

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Output
from cronpad_core.domain.errors import ConfigurationError, StateUnwritableError

__all__ = ["command"]

_NAME = "jobs.toml"


@click.command()
@click.argument("path", type=click.Path(path_type=Path), default=Path(_NAME))
@click.pass_obj
def command(invocation: Invocation, path: Path) -> None:
    """Write a commented jobs file to PATH (jobs.toml, or in PATH if that is a directory). Never overwrites."""
    from cronpad_core.config.sample import SAMPLE

    out = Output(invocation)
    target = path / _NAME if path.is_dir() else path
    if target.suffix.lower() != ".toml":
        raise ConfigurationError(f"{target} is no TOML file", hint=f"the sample is TOML: cronpad init {target.stem}.toml")
    try:
        # 'x': another process, or a dangling link, must not be overwritten between a check and the write.
        with target.open("x", encoding="utf-8") as file:
            file.write(SAMPLE)
    except FileExistsError:
        raise ConfigurationError(f"{target} exists already", hint="name another file, or remove it first") from None
    except OSError as error:
        raise StateUnwritableError(f"{target} cannot be written: {error.strerror}") from error
    if out.wants_json:
        out.document("init", [{"path": str(target)}])
        return
    out.line(f"wrote {target}")
    out.say(f"next: cronpad validate {target}, then cronpad {target}")
