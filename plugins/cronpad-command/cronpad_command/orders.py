"""What a nursery is told to start, and the lock under which it does."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping

from cronpad_command.nursery import wire
from cronpad_core.api import Millis, SpawnRequest

__all__ = ["lock_file", "order_for", "run_of", "scope_of"]

_SLOT_BITS = 62


def scope_of(environ: Mapping[str, str]) -> str:
    """What tells apart two cronpads whose runs may have the same ids: the state, as far as the environment names it."""
    if state := environ.get("CRONPAD_STATE"):
        return state
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def run_of(request: SpawnRequest) -> bytes:
    """The run that a command is started for; nothing when its environment does not say."""
    return os.fsencode(request.env.get("CRONPAD_RUN_ID", ""))


def order_for(request: SpawnRequest, *, scope: str, patience_ms: Millis) -> wire.Order:
    """The order, its token still to be given. Raises ``ValueError`` for what cannot be a process.

    ``patience_ms`` is how long an earlier copy of the run is waited for.
    """
    if not request.argv:
        raise ValueError("there is no program to start")
    argv = [os.fsencode(part) for part in request.argv]
    env = {os.fsencode(name): os.fsencode(value) for name, value in request.env.items()}
    cwd = os.fsencode(request.cwd or "")
    if any(b"\0" in text for text in (*argv, *env, *env.values(), cwd)):
        raise ValueError("embedded null byte")
    if any(not name or b"=" in name for name in env):
        raise ValueError("illegal environment variable name")
    run = run_of(request)
    digest = hashlib.sha256(os.fsencode(scope) + b"\0" + run).digest()
    slot = int.from_bytes(digest[:8], "big") >> (64 - _SLOT_BITS)
    return wire.Order(token=0, run=run, slot=slot, patience_ms=patience_ms, cwd=cwd, argv=argv, env=env)


def lock_file(environ: Mapping[str, str], scope: str) -> str:
    """Where the locks of a state are: one file, the same for every runner of that state and user on this machine."""
    directory = environ.get("XDG_RUNTIME_DIR") or ""
    if not (os.path.isabs(directory) and os.path.isdir(directory)):
        directory = tempfile.gettempdir()
    name = hashlib.sha256(os.fsencode(scope)).hexdigest()[:16]
    return os.path.join(directory, f"cronpad-{os.geteuid()}-{name}.lock")
