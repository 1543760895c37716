"""Which time-zone data this process reads: of the system, or of the package ``tzdata`` where the system has none."""

from __future__ import annotations

import zoneinfo
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["ZoneData"]

_TELLING = ("", "tzdata.zi", "+VERSION", "version")


class ZoneData:
    """Notices that the data was updated while the process runs; nothing is read but names and times of files."""

    def __init__(self) -> None:
        self._mark = _mark()

    def updated(self) -> bool:
        """Whether it is other data than at the last call."""
        before, self._mark = self._mark, _mark()
        return self._mark != before


def _mark() -> tuple[object, ...]:
    found: list[object] = []
    for place in zoneinfo.TZPATH:
        for name in _TELLING:
            try:
                status = (Path(place) / name).stat()
            except OSError:
                continue
            found.append((place, name, status.st_mtime_ns, status.st_ino, status.st_size))
    with suppress(PackageNotFoundError):
        found.append(version("tzdata"))
    return tuple(found)
