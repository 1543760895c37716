"""From a URL to the three files, and whether the file system under them can hold a state at all."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from cronpad_core.api import ConfigurationError, StateRefusedError

__all__ = ["ALLOW_NETWORK", "Places", "places_of", "refuse_network"]

ALLOW_NETWORK = "CRONPAD_ALLOW_NETWORK_FS"
_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre"})
_NETWORK_FUSE = ("fuse.sshfs", "fuse.s3fs", "fuse.rclone", "fuse.glusterfs", "fuse.ceph", "fuse.davfs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the three files are; ``directory`` is where control is."""

    directory: Path
    control: Path
    history: Path
    queue: Path


def places_of(url: str, queue_path: Path | None = None) -> Places:
    """Reads ``sqlite:///dir`` (a state directory) or ``sqlite:///dir/x.db`` (the control database).

    A directory holds ``cronpad.db``, ``history.db`` and ``cronpad-queue.db``. Beside a control database ``x.db`` are
    ``x-history.db`` and ``x-queue.db``; ``cronpad.db`` names the same files as its directory does. Both ``sqlite:///abs`` and
    ``sqlite:////abs`` are the path ``/abs``. Raises ``ConfigurationError``.
    """
    scheme, colon, rest = url.partition(":")
    if scheme != "sqlite" or not colon or not rest.startswith("///") or "?" in rest or "#" in rest:
        raise ConfigurationError(f"{url!r} is no place for a state", hint="write sqlite:///absolute/directory")
    path = Path("/" + unquote(rest).lstrip("/"))
    if "\0" in str(path) or path == Path("/"):
        raise ConfigurationError(f"{url!r} names no directory", hint="write sqlite:///absolute/directory")
    if path.suffix == ".db":
        directory, control = path.parent, path
    else:
        directory, control = path, path / "cronpad.db"
    stem = control.name.removesuffix(".db")
    history = control.with_name("history.db" if stem == "cronpad" else f"{stem}-history.db")
    queue = queue_path if queue_path is not None else control.with_name(f"{stem}-queue.db")
    return Places(directory=directory, control=control, history=history, queue=queue)


def refuse_network(directory: Path) -> None:
    """Raises ``StateRefusedError`` where the directory lies on a network file system: WAL needs shared memory."""
    if os.environ.get(ALLOW_NETWORK, "") not in ("", "0"):
        return
    kind = file_system_of(directory)
    if kind in _NETWORK or kind.startswith(_NETWORK_FUSE):
        raise StateRefusedError(
            f"{directory} is on a network file system ({kind}), on which SQLite's locks cannot be relied on",
            hint=f"name a local directory with --state, or set {ALLOW_NETWORK}=1 if only this machine ever opens it",
        )


def file_system_of(path: Path) -> str:
    """The type of the file system that holds ``path``, or would hold it; empty where that cannot be found out."""
    real = Path(os.path.realpath(path))
    while not real.exists() and real != real.parent:
        real = real.parent
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
        device = os.stat(real).st_dev
    except OSError:
        return ""
    return type_in(mounts, str(real), f"{os.major(device)}:{os.minor(device)}")


def type_in(mounts: str, path: str, device: str) -> str:
    """The type of the longest mount point above ``path``; of several at one place the one mounted last counts."""
    best, found = -1, ""
    for line in mounts.splitlines():
        left, dash, right = line.partition(" - ")
        fields = left.split(" ")
        if not dash or len(fields) < 5:
            continue
        point = fields[4].replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
        above = path == point or path.startswith(point.rstrip("/") + "/")
        if above and (len(point) > best or (len(point) == best and fields[2] == device)):
            best, found = len(point), right.split(" ", 1)[0]
    return found
