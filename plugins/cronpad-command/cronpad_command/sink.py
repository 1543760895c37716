"""The sink: one delivery is one process, and its end is the outcome."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar, assert_never

from cronpad_command import outcomes
from cronpad_command.environment import child_environment
from cronpad_command.failures import NurseryLost
from cronpad_command.ladder import Cause, see_through
from cronpad_command.machine import Closing, default_spawner
from cronpad_command.settings import Settings as CommandSettings
from cronpad_core.api import Cancelled, Delivery, Millis, Outcome, SinkContext, Spawner, SpawnError, SpawnRequest

__all__ = ["CommandSink"]

# Not looked up in PATH: a job may set a PATH of its own that has no shell.
_SHELL = "/bin/sh"
# The nursery of a runner that was killed takes two seconds and what a busy machine adds.
_PATIENCE: Millis = 15_000


class CommandSink:
    """Runs a command per delivery. Keeps no state between deliveries, so that any number can run at once."""

    name: ClassVar[str] = "command"
    api: ClassVar[int] = 1
    Settings: ClassVar[type[CommandSettings]] = CommandSettings
    capabilities: ClassVar[frozenset[str]] = frozenset({"graceful"})

    def __init__(self, context: SinkContext, *, spawner: Spawner | None = None) -> None:
        self._environ = dict(context.environ)
        self._spawner = spawner or default_spawner(context)

    async def deliver(self, delivery: Delivery) -> Outcome:
        """Starts the command and answers how it ended; whatever happens, nothing of it is left running."""
        settings = delivery.settings
        if not isinstance(settings, CommandSettings):
            raise TypeError(f"the settings of a command are not {type(settings).__name__}")
        if delivery.cancel.stage is not None:
            return Cancelled(reason=delivery.cancel.reason or "cancelled before it was started")
        try:
            child = await self._spawner.spawn(self._request(settings, delivery))
            ending = await see_through(
                child, cancel=delivery.cancel, timeout_ms=delivery.timeout_ms, kill_grace_ms=delivery.kill_grace_ms
            )
        except NurseryLost as error:
            return outcomes.lost(error)
        except SpawnError as error:
            return outcomes.not_started(error)
        match ending.cause:
            case Cause.ITSELF:
                return outcomes.ended_by_itself(ending.ended, shell=isinstance(settings.command, str))
            case Cause.TIMEOUT:
                return outcomes.timed_out(ending.ended, timeout_ms=delivery.timeout_ms, killed=ending.killed)
            case Cause.CANCEL:
                return outcomes.cancelled(ending.ended, why=delivery.cancel.reason, killed=ending.killed)
            case _:
                assert_never(ending.cause)

    async def close(self) -> None:
        """Lets go of what starts the commands; each delivery cleans up behind itself."""
        if isinstance(self._spawner, Closing):
            await self._spawner.close()

    def _request(self, settings: CommandSettings, delivery: Delivery) -> SpawnRequest:
        command = settings.command
        return SpawnRequest(
            argv=[_SHELL, "-c", command] if isinstance(command, str) else list(command),
            env=child_environment(self._environ, delivery, own=settings.env, clean=settings.env_mode == "clean"),
            cwd=settings.cwd,
            keep_head=settings.output_head,
            keep_tail=settings.output_tail,
            linger_ms=settings.output_linger // timedelta(milliseconds=1),
            patience_ms=min(_PATIENCE, delivery.timeout_ms),
        )
