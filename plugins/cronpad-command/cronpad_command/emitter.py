"""The alert emitter: a command that is given the alert."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import tempfile
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from cronpad_command.environment import inherited
from cronpad_command.settings import checked_command, checked_cwd
from cronpad_core.api import Alert, rfc3339

__all__ = ["AlertSettings", "CommandEmitter"]

_PREFIX = "CRONPAD_ALERT_"
_SHELL = "/bin/sh"
_SAID = 2_000


def _checked_env(env: dict[str, str]) -> dict[str, str]:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            raise ValueError("an environment variable needs a name without '=', and neither may hold a NUL character")
        if name.startswith(_PREFIX):
            raise ValueError(f"{name} is set by cronpad for each alert; choose another name")
    return env


class AlertSettings(BaseModel):
    """The settings of an alert of type ``command``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: Annotated[str | list[str], AfterValidator(checked_command)] = Field(
        description="A shell line, or a list of the program and its arguments."
    )
    env: Annotated[dict[str, str], AfterValidator(_checked_env)] = Field(
        default_factory=dict, description="Variables for this command; they win over inherited ones."
    )
    cwd: Annotated[str | None, AfterValidator(checked_cwd)] = Field(
        default=None, description="The absolute directory to start in; without it, the one that cronpad was started in."
    )


class CommandEmitter:
    """Runs a command for each alert: as JSON on its standard input, and in variables ``CRONPAD_ALERT_…``. Exit 0 means sent."""

    name: ClassVar[str] = "command"
    api: ClassVar[int] = 1
    Settings: ClassVar[type[BaseModel]] = AlertSettings

    def __init__(self, settings: AlertSettings) -> None:
        self._settings = settings

    async def emit(self, alert: Alert) -> None:
        """Runs it to its end; what it leaves running in its session is killed, also where it is cancelled."""
        command = self._settings.command
        argv = [_SHELL, "-c", command] if isinstance(command, str) else command
        with tempfile.TemporaryFile() as said:
            starting = asyncio.ensure_future(
                asyncio.create_subprocess_exec(
                    *argv,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=said,
                    env={**inherited(os.environ, clean=False), **self._settings.env, **_variables(alert)},
                    cwd=self._settings.cwd,
                    start_new_session=True,
                )
            )
            try:
                # Cancelled in the middle of a start, asyncio would wait for ever for a process whose pipes it has not connected.
                process = await asyncio.shield(starting)
                await _feed(process, json.dumps(alert.to_json()).encode() + b"\n")
                code = await process.wait()
            finally:
                await asyncio.shield(_end(starting))
            if code != 0:
                said.seek(max(0, said.seek(0, os.SEEK_END) - _SAID))
                words = " ".join(said.read().decode("utf-8", "replace").split())
                how = f"signal {-code}" if code < 0 else f"exit {code}"
                raise RuntimeError(f"the command ended with {how}" + (f": {words}" if words else ""))


async def _end(starting: asyncio.Future[asyncio.subprocess.Process]) -> None:
    """Kills what is left of the command's session."""
    with contextlib.suppress(OSError, ValueError):  # it was not started, which is said already
        process = await starting
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _feed(process: asyncio.subprocess.Process, document: bytes) -> None:
    # A command need not read what it is given.
    stdin = process.stdin
    assert stdin is not None, "it was asked for"
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        stdin.write(document)
        await stdin.drain()
    stdin.close()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        await stdin.wait_closed()


def _variables(alert: Alert) -> dict[str, str]:
    values: dict[str, str] = {
        "ID": alert.id,
        "NAME": alert.name,
        "KIND": alert.kind,
        "JOB": alert.job_name,
        "RUN_ID": alert.run_id or "",
        "AT": rfc3339(alert.at_ms) or "",
        "TEXT": alert.text,
    }
    return {f"{_PREFIX}{name}": value.replace("\0", "") for name, value in values.items()}
