"""Every error that cronpad raises on purpose, in one tree.

::

    CronpadError
    ├── ScheduleError        a schedule text is refused
    ├── ConfigurationError   a jobs file or a setting is refused (all problems at once)
    ├── PluginError          a needed plugin failed, is missing, or clashes
    ├── NotFoundError        no such job, run or workspace, or the name is ambiguous
    ├── NotRunningError      nobody dispatches on this state, or it cannot be reached
    ├── CoreDiedError        a core loop ended: restart the process
    ├── StateError           the state itself
    │   ├── StateUnwritableError   cannot be created or written at start
    │   ├── StateVanishedError     went away while running
    │   ├── StateRefusedError      newer schema, damaged, or an unsuitable file system
    │   └── LockHeldError          another dispatcher holds the lock
    ├── StoreError           one store call failed; nothing of it was applied
    │   ├── StoreBusyError         locked by somebody else, or full: try again
    │   ├── StoreDamagedError      the file is damaged or was replaced
    │   └── CommitUnknownError     it may or may not have been applied: read it back
    ├── TermRefusedError     a write under a term that is no longer the stored one
    └── MalformedMemberError a queue member that no occurrence can be read from

Each class carries the exit code that the command line ends with when the error reaches it.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "CommitUnknownError",
    "ConfigurationError",
    "CoreDiedError",
    "CronpadError",
    "LockHeldError",
    "MalformedMemberError",
    "NotFoundError",
    "NotRunningError",
    "PluginError",
    "ScheduleError",
    "StateError",
    "StateRefusedError",
    "StateUnwritableError",
    "StateVanishedError",
    "StoreBusyError",
    "StoreDamagedError",
    "StoreError",
    "TermRefusedError",
]


class CronpadError(Exception):
    """The root: anything that cronpad refuses or fails at, with the mend in ``hint`` where there is one."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ScheduleError(CronpadError):
    """A schedule text that is refused.

    ``field`` is the field's name (``"minute"``, ``"day-of-week"``, ``"interval"``, ``"timezone"`` …) or ``None`` where the text
    as a whole is meant; ``position`` its 1-based number; ``token`` the offending part as the user wrote it; ``code`` a stable
    word for programs; ``suggestion`` a text that would be accepted, where one is near.
    """

    exit_code = 2

    def __init__(
        self,
        message: str,
        *,
        code: str,
        field: str | None = None,
        position: int | None = None,
        token: str = "",
        suggestion: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.field = field
        self.position = position
        self.token = token
        self.suggestion = suggestion


class ConfigurationError(CronpadError):
    """A file, a flag or a setting is refused; ``report`` is the full text, every problem with its place."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None, report: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.report = report or message


class PluginError(CronpadError):
    """A plugin that is needed is missing, failed, is incompatible, or claims a taken name."""

    exit_code = 5


class NotFoundError(CronpadError):
    """No such job, run, workspace or file, or a name that fits several."""

    exit_code = 4


class NotRunningError(CronpadError):
    """No process dispatches on this state, or it cannot be reached."""

    exit_code = 3


class CoreDiedError(CronpadError):
    """A loop that must never end has ended, by a mistake of cronpad's own: a supervisor should restart it."""

    exit_code = 70


class StateError(CronpadError):
    """Something is wrong with the place where state lives."""

    exit_code = 78


class StateUnwritableError(StateError):
    """The state cannot be created or written at start."""

    exit_code = 73


class StateVanishedError(StateError):
    """The state went away, or was replaced, while running."""

    exit_code = 74


class StateRefusedError(StateError):
    """Newer schema, damaged control or history, not ours, or an unsuitable file system."""

    exit_code = 78


class LockHeldError(StateError):
    """Another dispatcher holds the lock and standing by was ruled out."""

    exit_code = 75


class StoreError(CronpadError):
    """A store call failed and nothing of it was applied."""


class StoreBusyError(StoreError):
    """The store is locked by another process, full or read-only for now; the same call may succeed later."""


class StoreDamagedError(StoreError):
    """The file is damaged, was emptied, deleted or replaced."""


class CommitUnknownError(StoreError):
    """The commit failed in a way that leaves open whether it was applied: read back before doing anything again."""


class TermRefusedError(CronpadError):
    """A write was refused because the caller's term is not the stored one: another dispatcher came after."""


class MalformedMemberError(CronpadError):
    """A queue member from which no occurrence can be read."""
