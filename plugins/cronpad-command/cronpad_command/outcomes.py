"""How the end of a process reads as an outcome: the exit status decides, text on stderr does not."""

from __future__ import annotations

import signal
from typing import TypedDict

from cronpad_command.failures import NurseryLost, PreviousRunInProgress
from cronpad_core.api import (
    Cancelled,
    Delivered,
    Ended,
    Failed,
    JsonValue,
    Millis,
    Outcome,
    SpawnError,
    StreamCapture,
    TimedOut,
    Unknown,
)

__all__ = ["cancelled", "ended_by_itself", "lost", "not_started", "timed_out"]

_NOT_EXECUTABLE = 126
_NOT_FOUND = 127
_SIGNALLED = 128

_SHELL_SAYS = {_NOT_EXECUTABLE: "exit 126: command found but not executable", _NOT_FOUND: "exit 127: command not found"}


class _Facts(TypedDict):
    exit_code: int | None
    facts: dict[str, JsonValue]
    output: tuple[StreamCapture, ...]


def ended_by_itself(ended: Ended, *, shell: bool) -> Outcome:
    """Nobody told it to end. In a shell's answer 126 and 127 have a meaning; from a program they are numbers like others."""
    report = _facts(ended)
    if ended.signal is not None:
        return Failed(reason=f"killed by {_signal_text(ended.signal)}", **report)
    if ended.exit_code is None:
        return Unknown(reason="its exit status was taken by another part of the process", **report)
    if ended.exit_code == 0:
        return Delivered(**report)
    reason = f"exit {ended.exit_code}"
    return Failed(reason=_SHELL_SAYS.get(ended.exit_code, reason) if shell else reason, **report)


def timed_out(ended: Ended, *, timeout_ms: Millis, killed: bool) -> TimedOut:
    """It ran into its timeout and was ended; ``killed`` that TERM was not enough."""
    return TimedOut(reason=f"timed out after {_seconds(timeout_ms)}{' (killed)' if killed else ''}", **_facts(ended))


def cancelled(ended: Ended, *, why: str, killed: bool) -> Cancelled:
    """It was asked to stop and was ended; ``killed`` that it was not TERM that ended it."""
    return Cancelled(reason=f"{why or 'cancelled'}{' (killed)' if killed else ''}", **_facts(ended))


def not_started(error: SpawnError) -> Failed:
    """There was no process. Only a lack of resources passes by itself; a shell's code is given for everything else."""
    return Failed(
        reason=str(error),
        exit_code=None if error.resource else error.code,
        retryable=error.resource,
        undelivered=True,
        facts={"reason": "previous_run_in_progress"} if isinstance(error, PreviousRunInProgress) else {},
    )


def lost(error: NurseryLost) -> Failed:
    """It was ended because nobody could look after it any more, which is no fault of the command."""
    return Failed(reason=f"infrastructure: {error}", retryable=True, facts={"error": "infrastructure"}, output=error.output)


def _facts(ended: Ended) -> _Facts:
    if ended.signal is None:
        return _Facts(exit_code=ended.exit_code, facts={}, output=ended.output)
    return _Facts(exit_code=_SIGNALLED + ended.signal, facts={"signal": ended.signal}, output=ended.output)


def _signal_text(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def _seconds(duration_ms: Millis) -> str:
    return f"{duration_ms / 1_000:g} s"
