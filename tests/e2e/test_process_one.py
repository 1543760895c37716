"""The runner as process 1 of a container, where nobody else takes notice of orphans that end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from stage import EACH_SECOND, Stage, wait_until

_NAMESPACE = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]


def _may_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*_NAMESPACE, "true"], capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not _may_unshare(), reason="this machine gives no process namespace of one's own (unshare)")


def _family(of: int) -> dict[int, str]:
    """All processes below one, with their state as ``/proc`` tells it."""
    found: dict[int, str] = {}
    parents = {of}
    while parents:
        below = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) in parents:
                below[int(folder.name)] = fields[0]
        parents = set(below) - set(found)
        found |= below
    return found


def test_process_one_reaps_orphans_and_passes_the_stop_on(stage: Stage) -> None:
    """Background children of every run are taken notice of when they end, and SIGTERM still stops gracefully with 0 (B092)."""
    command = "(sleep 0.2 >/dev/null 2>&1 &) ; (setsid sleep 0.2 >/dev/null 2>&1 &)"
    stage.declare(stage.job("orphans", EACH_SECOND, command=command))
    runner = stage.start(prefix=_NAMESPACE)
    runner.finished("orphans", count=4)
    wait_until(lambda: "Z" not in _family(runner.pid).values(), "no zombie is left", within=5)
    os.kill(min(_family(runner.pid)), signal.SIGTERM)
    assert runner.ended() == 0
    assert runner.messages("dispatcher", state="stopped")
