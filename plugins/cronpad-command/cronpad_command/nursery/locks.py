"""A lock for each run that has processes, held by its nursery and nobody else."""

from __future__ import annotations

import fcntl
import os
import stat

__all__ = ["RunLocks"]


class RunLocks:
    """One file for a state, one byte of it for a run: taken as long as anything of the run is there, and free again when its
    holder ends, however it ends.

    Byte-range locks belong to the process, so that commands do not inherit them and a run costs no file. Without a file that
    can be trusted, every lock is given: runs of one nursery still exclude each other, as that is known without a file.
    """

    def __init__(self, path: str) -> None:
        self._file = _opened(path)
        self._taken: set[bytes] = set()

    def take(self, run: bytes, slot: int) -> bool:
        """Takes the run's lock; answers whether it was free."""
        if run in self._taken:
            return False
        if self._file is not None:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, slot)
                # Whoever tidies up directories for everybody goes by age; another file would be another lock.
                os.utime(self._file)
            except BlockingIOError:
                return False
            except OSError as error:
                # A file system without locks is no reason to start nothing; somebody else's lock is.
                if isinstance(error, PermissionError):
                    return False
        self._taken.add(run)
        return True

    def give_back(self, run: bytes, slot: int) -> None:
        """Frees the run's lock."""
        self._taken.discard(run)
        if self._file is not None:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, slot)
            except OSError:
                return


def _opened(path: str) -> int | None:
    """The lock file, if it is ours: in a directory for everybody, a stranger could have put one there."""
    if not path:
        return None
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
    found = os.fstat(file)
    if found.st_uid == os.geteuid() and stat.S_ISREG(found.st_mode):
        return file
    os.close(file)
    return None
