"""Why a process could not be started, in the terms that a shell uses and a person understands."""

from __future__ import annotations

import errno
import os
import shutil

from cronpad_core.api import SpawnError, SpawnRequest, StreamCapture

__all__ = ["PASSING", "NurseryLost", "PreviousRunInProgress", "spawn_error"]

_NOT_EXECUTABLE = 126
_NOT_FOUND = 127

# ETXTBSY: somebody has the program open for writing, for instance another start that is between its fork and its exec.
PASSING = frozenset(
    {
        errno.EAGAIN,
        errno.ENOMEM,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOSPC,
        errno.ENOBUFS,
        errno.ETOOMANYREFS,
        errno.ETXTBSY,
    }
)
"""What can be otherwise at the next try."""


def spawn_error(error: Exception, request: SpawnRequest) -> SpawnError:
    """Translates what the system answered to a start."""
    program = request.argv[0] if request.argv else ""
    if not isinstance(error, OSError) or error.errno is None:
        return SpawnError(f"exec: {program}: {error}", code=_NOT_EXECUTABLE)
    said = os.strerror(error.errno)
    if error.errno in PASSING:
        return SpawnError(f"resource: {errno.errorcode[error.errno]}: {said}", code=_NOT_EXECUTABLE, resource=True)
    if request.cwd is not None and error.filename == request.cwd:
        return SpawnError(f"exec: working directory {request.cwd}: {said}", code=_NOT_EXECUTABLE)
    if error.errno == errno.ENOENT:
        if _is_there(program, request):
            return SpawnError(f"exec: {program}: the interpreter that it names is not there", code=_NOT_FOUND)
        return SpawnError(f"exec: {program}: command not found", code=_NOT_FOUND)
    return SpawnError(f"exec: {program}: {said}", code=_NOT_EXECUTABLE)


def _is_there(program: str, request: SpawnRequest) -> bool:
    if os.sep in program:
        return os.path.exists(os.path.join(request.cwd or "", program))
    return shutil.which(program, path=request.env.get("PATH")) is not None


class PreviousRunInProgress(SpawnError):
    """An earlier copy of the run is still there, and did not go in time."""

    def __init__(self) -> None:
        super().__init__("processes of an earlier delivery of this run are still there", code=_NOT_EXECUTABLE, resource=True)


class NurseryLost(SpawnError):
    """The process that looks after all commands died; what it looked after was ended. ``output`` is what was read until then."""

    def __init__(self, output: tuple[StreamCapture, ...] = ()) -> None:
        super().__init__("the nursery of all commands died", code=_NOT_EXECUTABLE, resource=True)
        self.output = output
