"""The record of what a runner did to its files, and what a disk may hold after the power was cut at any place of it."""

from __future__ import annotations

import random
import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["KINDS", "Entry", "entries_of", "image"]

KINDS = ("synced", "prefix", "torn")
"""Of what was not synced: nothing is there, all is there, or any part of it, torn at sectors."""
_HEAD = struct.Struct("=c3xIQQQ")
_SECTOR = 512


@dataclass(frozen=True, slots=True)
class Entry:
    """One call. ``kind``: c(reated), w(rite), t(runcate), f(sync), u(nlink), r(ename), l(ink), s(aid on stdout)."""

    kind: str
    end: int
    file: int
    name: str
    offset: int
    data: bytes


def entries_of(log: Path) -> list[Entry]:
    """The whole record; ``end`` is how long the record was when the entry had been made."""
    raw, at, entries = log.read_bytes(), 0, []
    while at + _HEAD.size <= len(raw):
        kind, name_length, file, offset, length = _HEAD.unpack_from(raw, at)
        name_at = at + _HEAD.size
        at = name_at + name_length + length
        if at > len(raw):
            break  # the runner was killed while it wrote this one
        data = raw[name_at + name_length : at]
        entries.append(Entry(kind.decode(), at, file, raw[name_at : name_at + name_length].decode(), offset, data))
    return entries


@dataclass(slots=True)
class _File:
    """What of a file is certain, and what was done to it since."""

    certain: bytearray = field(default_factory=bytearray)
    since: list[Entry] = field(default_factory=list)

    def sync(self) -> None:
        for entry in self.since:
            _apply(self.certain, entry.kind, entry.offset, entry.data)
        self.since.clear()

    def after_cut(self, kind: str, rng: random.Random) -> bytes:
        content = bytearray(self.certain)
        for entry in self.since:
            if kind == "prefix" or (kind == "torn" and rng.random() < 0.5):
                for offset, data in _torn(entry, rng) if kind == "torn" else [(entry.offset, entry.data)]:
                    _apply(content, entry.kind, offset, data)
        return bytes(content)


def _torn(entry: Entry, rng: random.Random) -> Iterator[tuple[int, bytes]]:
    """A write, or some sectors of it."""
    if entry.kind != "w" or rng.random() > 0.3:
        yield entry.offset, entry.data
        return
    at = 0
    while at < len(entry.data):
        step = _SECTOR - (entry.offset + at) % _SECTOR
        if rng.random() < 0.5:
            yield entry.offset + at, entry.data[at : at + step]
        at += step


def _apply(content: bytearray, kind: str, offset: int, data: bytes) -> None:
    if kind == "t":
        del content[offset:]
    elif data:
        content.extend(bytes(max(0, offset - len(content))))
        content[offset : offset + len(data)] = data
        return
    content.extend(bytes(max(0, offset - len(content))))


def image(entries: list[Entry], cut: int, kind: str, rng: random.Random) -> dict[str, bytes]:
    """The directory after a cut behind the first ``cut`` entries: name → content.

    Names change in order, as in the journal of a file system, and every sync makes the changes before it certain; of the later
    ones a part is there. SQLite's shared memory is left out: no power cut leaves any of use.
    """
    files: dict[int, _File] = defaultdict(_File)  # by the number of the file, which is given again to others
    names: dict[str, _File] = {}
    certain: dict[str, _File] = {}
    pending: list[dict[str, _File]] = []  # all names after each change that is not certain yet
    for entry in entries[:cut]:
        if entry.kind in "wt":
            files[entry.file].since.append(entry)
        elif entry.kind == "f":
            files[entry.file].sync()
            certain, pending = names, []
        elif entry.kind != "s":
            names = _renamed(names, entry, files)
            pending.append(names)
    if kind == "torn":
        certain = rng.choice([certain, *pending])
    elif kind == "prefix":
        certain = names
    return {name: file.after_cut(kind, rng) for name, file in sorted(certain.items()) if not name.endswith("-shm")}


def _renamed(names: dict[str, _File], entry: Entry, files: dict[int, _File]) -> dict[str, _File]:
    after = dict(names)
    if entry.kind == "c":
        after[entry.name] = files[entry.file] = _File()
    elif entry.kind == "u":
        after.pop(entry.name, None)
    elif entry.name in after:
        after[entry.data.decode()] = after.pop(entry.name) if entry.kind == "r" else after[entry.name]
    return after
