"""Asking a state for something, and what is expected of every answer."""

from __future__ import annotations

import json
from typing import Any

from books import audit, findings_of_runs
from stage import Ended, Running, Stage, wait_until

__all__ = ["NEVER", "called", "document", "ends", "in_order"]

NEVER = "0 0 1 1 *"


def called(stage: Stage, *arguments: object, code: int = 0) -> Ended:
    """A command on the state, which must end with that code."""
    done = stage.call(*arguments, "--state", stage.state)
    assert done.code == code, done
    assert "Traceback" not in done.err
    return done


def document(stage: Stage, *arguments: object, code: int = 0) -> dict[str, Any]:
    """The same with ``--json``: the only item."""
    found = json.loads(called(stage, *arguments, "--json", code=code).out)
    assert found["schema"].startswith("cronpad.")
    [item] = found["items"]
    return dict(item)


def ends(stage: Stage, run_id: str) -> str:
    """Waits for the end of a run; its status."""
    query = "SELECT status FROM runs WHERE id = ? AND ended = 1"
    [(status,)] = wait_until(lambda: stage.rows(stage.history, query, run_id), f"{run_id} has ended: {stage.statuses()}")
    return str(status)


def in_order(stage: Stage, runner: Running) -> None:
    """Stops the runner: nothing is lost or done twice."""
    runner.stop()
    assert audit(stage) == []
    assert findings_of_runs(stage) == []
