"""Who dispatches: the record of the holder, the lock row, and what one look at both shows."""

from __future__ import annotations

from dataclasses import dataclass

from cronpad_core.domain.timing import Millis

__all__ = ["LockRow", "QueueLook", "TermRecord"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TermRecord:
    """Control's and history's word on the holder: who took term ``term``, and whether it gave it back.

    ``holder`` is the identity text of a process, or ``None`` where nobody ever held it.
    """

    term: int = 0
    holder: str | None = None
    released: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRow:
    """The lock in the queue: ``token`` names one process, ``expires_ms`` is lease time."""

    token: str
    term: int
    expires_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLook:
    """One look at the queue, from outside: which file it is, its lock row, and the highest term it has seen.

    ``identity`` is ``None`` where there is no queue, or none that can be read. ``boot_id`` and ``boot_base_ms`` give lease time
    its meaning: lease time = ``boot_base_ms`` + boot clock, as long as the boot id is this machine's.
    """

    identity: str | None
    lock: LockRow | None = None
    term: int = 0
    boot_id: str | None = None
    boot_base_ms: Millis = 0
    epoch: str | None = None
    heartbeat_ms: Millis | None = None
