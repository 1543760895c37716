"""What a jobs file may say of a command."""

from __future__ import annotations

import posixpath
import re
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from cronpad_command.environment import RESERVED

__all__ = ["Settings", "checked_command", "checked_cwd"]

KIB = 1_024
MOST_KEPT = 16 * KIB * KIB
LONGEST_LINGER = timedelta(minutes=1)

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}


def checked_command(command: str | list[str]) -> str | list[str]:
    """Refuses what could not be started, with a hint of what to write."""
    hint = 'give a shell line such as "backup.sh /data", or a list such as ["backup.sh", "/data"] to do without a shell'
    if isinstance(command, str):
        if not command.strip():
            raise ValueError(f"the command is empty: {hint}")
    elif not command:
        raise ValueError(f"the command is an empty list: {hint}")
    elif not command[0].strip():
        raise ValueError(f"the first item of the command, the program, is empty: {hint}")
    if any("\0" in part for part in command):
        raise ValueError("the command holds a NUL character, which no process can be given")
    return command


def _checked_env(env: dict[str, str]) -> dict[str, str]:
    """Refuses names and values that an environment cannot hold, and names that cronpad sets itself."""
    for name, value in env.items():
        if not name or "=" in name or "\0" in name:
            raise ValueError(f"{name!r} cannot be the name of an environment variable")
        if "\0" in value:
            raise ValueError(f"the value of {name} holds a NUL character, which no environment can")
        if name in RESERVED:
            raise ValueError(f"{name} is set by cronpad for each run; choose another name")
    return env


def checked_cwd(cwd: str | None) -> str | None:
    """Refuses a relative directory: the one that cronpad was started in is no part of a job."""
    if cwd is not None and not posixpath.isabs(cwd):
        raise ValueError(f"the working directory must be absolute: {cwd!r}")
    if cwd is not None and "\0" in cwd:
        raise ValueError("the working directory holds a NUL character")
    return cwd


def _duration(given: object) -> object:
    """Reads ``500ms``, ``1s`` or ``1m``; anything else goes on to pydantic."""
    if not isinstance(given, str) or (found := _DURATION.fullmatch(given.strip())) is None:
        return given
    return timedelta(seconds=float(found[1]) * _UNITS[found[2]])


class Settings(BaseModel):
    """One job's command. A text goes to ``sh -c``; a list is started as it is, without a shell."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: Annotated[str | list[str], AfterValidator(checked_command)] = Field(
        description="A shell line, or a list of the program and its arguments."
    )
    env: Annotated[dict[str, str], AfterValidator(_checked_env)] = Field(
        default_factory=dict, description="Variables for this job; they win over inherited ones."
    )
    cwd: Annotated[str | None, AfterValidator(checked_cwd)] = Field(
        default=None, description="The absolute directory to start in; without it, the one that cronpad was started in."
    )
    env_mode: Literal["inherit", "clean"] = Field(
        default="inherit",
        description="inherit: the environment that cronpad was started with, less its secrets; clean: only a short list of it.",
    )
    output_head: int = Field(default=64 * KIB, ge=0, le=MOST_KEPT, description="Bytes kept of each stream's beginning.")
    output_tail: int = Field(default=64 * KIB, ge=0, le=MOST_KEPT, description="Bytes kept of each stream's end.")
    output_linger: Annotated[timedelta, BeforeValidator(_duration)] = Field(
        default=timedelta(seconds=1),
        ge=timedelta(0),
        le=LONGEST_LINGER,
        description="How long output is still read from background processes once the command itself has ended.",
    )
