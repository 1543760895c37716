"""What a nursery is told to start, and the lock under which it does."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping

from cronpad_command.nursery import wire
from cronpad_core.api import SpawnRequest

__all__ = ["lock_file", "order_for", "run_of", "scope_of"]

_SLOT_BITS = 62
_DIGITS = 16
_LOCKS = "cronpad-runs.lock"
_ALONE = "memory:"


def scope_of(state: str) -> str:
    """What tells apart two cronpads whose runs have the same ids: the state, or the process where nobody shares its state."""
    return f"process {os.getpid()}" if not state or state.startswith(_ALONE) else state


def run_of(request: SpawnRequest, scope: str) -> bytes:
    """By what a run is known on this machine, all states together; nothing when the environment of the command names no run."""
    run = request.env.get("CRONPAD_RUN_ID", "")
    return _digest(scope, run).encode() if run else b""


def order_for(request: SpawnRequest, *, scope: str) -> wire.Order:
    """The order, its token still to be given. Raises ``ValueError`` for what cannot be a process."""
    if not request.argv:
        raise ValueError("there is no program to start")
    argv = [os.fsencode(part) for part in request.argv]
    env = {os.fsencode(name): os.fsencode(value) for name, value in request.env.items()}
    cwd = os.fsencode(request.cwd or "")
    if any(b"\0" in text for text in (*argv, *env, *env.values(), cwd)):
        raise ValueError("embedded null byte")
    if any(not name or b"=" in name for name in env):
        raise ValueError("illegal environment variable name")
    run = run_of(request, scope)
    if run:
        env[wire.VARIABLE.encode()] = run
    slot = int(run or b"0", 16) >> (4 * _DIGITS - _SLOT_BITS)
    return wire.Order(token=0, run=run, slot=slot, patience_ms=request.patience_ms, cwd=cwd, argv=argv, env=env)


def lock_file(state: str, environ: Mapping[str, str]) -> str:
    """Where the locks of a state are: one file, the same for every runner of that state on this machine; none if it is not shared.

    A state that is a directory holds it itself: directories for temporary files differ between a service and a shell.
    """
    if not state or state.startswith(_ALONE):
        return ""
    directory = state.partition("://")[2] or state
    if os.path.isabs(directory) and os.path.isdir(directory):
        return os.path.join(directory, _LOCKS)
    directory = environ.get("XDG_RUNTIME_DIR") or ""
    if not (os.path.isabs(directory) and os.path.isdir(directory)):
        directory = tempfile.gettempdir()
    return os.path.join(directory, f"cronpad-{os.geteuid()}-{_digest(state)}.lock")


def _digest(*texts: str) -> str:
    return hashlib.sha256(b"\0".join(os.fsencode(text) for text in texts)).hexdigest()[:_DIGITS]
