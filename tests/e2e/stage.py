"""A place for one test: a jobs file, a state directory, a witness outside cronpad, and the runners that were started there."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

__all__ = ["EACH_SECOND", "PATIENCE", "Ended", "Line", "Running", "Stage", "processes_with", "quick", "wait_until"]

T = TypeVar("T")

PATIENCE = 30.0
"""How many seconds a test waits for what should come at once: when it gives up, never what it proves."""

EACH_SECOND = "* * * * * *"
ALL_AT_ONCE: Mapping[str, object] = {"policy": "allow", "max": 100}
_MARK = "E2E_STAGE"
_NUMBER = "E2E_RUNNER"


def wait_until(answer: Callable[[], T], what: str | Callable[[], str], *, within: float = PATIENCE) -> T:
    """Asks again and again until the answer is true, and returns it; ``what`` is said where it never is."""
    end = time.monotonic() + within
    while True:
        # Asked once more after the end: this process may have been the slow one.
        late = time.monotonic() > end
        found = answer()
        if found:
            return found
        assert not late, f"waited {within:g} s: {what if isinstance(what, str) else what()}"
        time.sleep(0.02)


def quick(**more: str) -> dict[str, str]:
    """Settings with which faults are noticed in a second or two; ``lock_ttl="2s"`` and the like change or add one."""
    given = {"lease_duration": "3s", "reconcile_interval": "300ms", "overdue_grace": "1s"} | more
    return {f"CRONPAD_SCHEDULER__{name.upper()}": value for name, value in given.items()}


def processes_with(text: str) -> dict[int, str]:
    """Processes with this text in their environment: number → command line. Zombies have neither."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if text.encode() in (entry / "environ").read_bytes():
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
        except OSError:
            continue
    return found


class Line(NamedTuple):
    """One line of the witness: what a command that ran wrote down about itself, and which runner had started it."""

    tag: str
    run_id: str
    slot_ms: int
    attempt: int
    runner: int


class Ended(NamedTuple):
    """A call of the command that has ended."""

    code: int
    out: str
    err: str


class Running:
    """One ``cronpad run`` process."""

    def __init__(self, process: subprocess.Popen[bytes], out: Path, err: Path, number: int) -> None:
        self.process = process
        self.number = number
        self._out = out
        self._err = err

    @property
    def pid(self) -> int:
        """Its process number."""
        return self.process.pid

    @property
    def stderr(self) -> str:
        """All that it has said on stderr."""
        return self._err.read_text(encoding="utf-8", errors="replace")

    @property
    def stdout(self) -> str:
        """All that it has said on stdout."""
        return self._out.read_text(encoding="utf-8", errors="replace")

    def attempts(self, job: str | None = None) -> list[dict[str, Any]]:
        """Its lines on stdout, one per attempt."""
        return [one for one in _documents(self.stdout) if job is None or one["job"] == job]

    def messages(self, event: str, **facts: object) -> list[dict[str, Any]]:
        """Its messages of one kind with these facts."""
        wanted = {"event": event, **facts}
        return [one for one in _documents(self.stderr) if wanted.items() <= one.items()]

    def says(self, event: str, *, times: int = 1, within: float = PATIENCE, **facts: object) -> dict[str, Any]:
        """Waits for a message; answers the last one."""

        def answer() -> list[dict[str, Any]]:
            found = self.messages(event, **facts)
            self.require_alive()
            return found if len(found) >= times else []

        def missing() -> str:
            return f"{event} {facts} was not said by runner {self.number}:\n{self.stderr}"

        return wait_until(answer, missing, within=within)[-1]

    def active(self, *, times: int = 1, within: float = PATIENCE) -> Running:
        """Waits until it dispatches."""
        self.says("dispatcher", state="active", times=times, within=within)
        return self

    def standing_by(self, *, times: int = 1) -> Running:
        """Waits until it stands by."""
        self.says("dispatcher", state="standby", times=times)
        return self

    def applied(self, times: int) -> dict[str, int]:
        """Waits until files were applied that many times; answers what the last one did."""
        counts: dict[str, int] = self.says("applied", times=times)["jobs"]
        return counts

    def finished(self, job: str, *, count: int = 1, within: float = PATIENCE, **facts: object) -> list[dict[str, Any]]:
        """Waits for attempts of a job with these facts."""

        def answer() -> list[dict[str, Any]]:
            found = [one for one in self.attempts(job) if facts.items() <= one.items()]
            self.require_alive()
            return found if len(found) >= count else []

        def missing() -> str:
            return f"{count} attempts of {job} with {facts} by runner {self.number}:\n{self.stdout}\n{self.stderr}"

        return wait_until(answer, missing, within=within)

    def require_alive(self) -> None:
        """Fails where the process has ended."""
        code = self.process.poll()
        assert code is None, f"runner {self.number} ended with {code}:\n{self.stderr}"

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to the runner alone."""
        self.process.send_signal(number)

    def ended(self, *, within: float = PATIENCE) -> int:
        """Waits for its end; answers the exit code."""
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"runner {self.number} had not ended after {within:g} s:\n{self.stderr}") from None

    def kill(self) -> None:
        """``kill -9``."""
        self.process.kill()
        self.process.wait()

    def stop(self, *, within: float = PATIENCE) -> None:
        """A graceful stop, which must end with 0."""
        self.send(signal.SIGTERM)
        code = self.ended(within=within)
        assert code == 0, f"runner {self.number} ended with {code}:\n{self.stderr}"

    def descriptors(self) -> int:
        """How many files it has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def resident_kb(self) -> int:
        """How much memory it has in use."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8")
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1])

    def children(self) -> dict[int, str]:
        """Its child processes with their states; ``Z`` is a zombie."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
                except OSError:
                    continue
                if int(fields[1]) == self.pid:
                    found[int(entry.name)] = fields[0]
        return found


def _documents(text: str) -> list[dict[str, Any]]:
    """The whole lines that are JSON objects."""
    lines = text.splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]


class Stage:
    """What one test has to itself. Leaving it ends every process that was started from here, and fails on a traceback."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        self.file = root / "jobs.json"
        self.state = root / "state"
        self.control = self.state / "cronpad.db"
        self.history = self.state / "history.db"
        self.queue = self.state / "cronpad-queue.db"
        self.notes = root / "witness"
        self.runners: list[Running] = []

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end_everything()
        if error is None:
            for runner in self.runners:
                assert "Traceback" not in runner.stderr, runner.stderr

    def end_everything(self) -> None:
        """Kills what still runs."""
        for runner in self.runners:
            if runner.process.poll() is None:
                runner.kill()
        for pid in self.leftovers():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    # -------------------------------------------------------------------------------------------------- jobs and witness

    def job(self, name: str, schedule: str | Sequence[str] = EACH_SECOND, **more: object) -> dict[str, object]:
        """A job that writes a line to the witness, unless it is given another command; several may run at once."""
        return {"name": name, "schedule": schedule, "command": self.line(name), "overlap": ALL_AT_ONCE} | more

    def line(self, tag: str) -> str:
        """A shell command that writes a line to the witness."""
        facts = f"{tag} $CRONPAD_RUN_ID $CRONPAD_SCHEDULED_AT $CRONPAD_ATTEMPT ${_NUMBER}"
        return f'echo "{facts}" >> {self.notes}'

    def declare(self, *jobs: Mapping[str, object], file: Path | None = None, **more: object) -> None:
        """Writes the jobs file; in its place at once, as an editor would."""
        target = file or self.file
        fresh = target.with_name(f".{target.name}.new")
        fresh.write_text(json.dumps({"version": 1, "jobs": list(jobs), **more}, indent=1), encoding="utf-8")
        fresh.replace(target)

    def witness(self, tag: str | None = None) -> list[Line]:
        """What the commands wrote down."""
        if not self.notes.exists():
            return []
        lines = []
        for text in self.notes.read_text(encoding="utf-8").splitlines():
            name, run_id, slot, attempt, runner = text.split()
            slot_ms = int(datetime.fromisoformat(slot).timestamp() * 1000)
            lines.append(Line(name, run_id, slot_ms, int(attempt), int(runner)))
        return [line for line in lines if tag is None or line.tag == tag]

    def sees(self, tag: str, *, count: int = 1, within: float = PATIENCE, **facts: object) -> list[Line]:
        """Waits for lines of the witness with these facts."""

        def answer() -> list[Line]:
            found = [line for line in self.witness(tag) if facts.items() <= line._asdict().items()]
            return found if len(found) >= count else []

        def missing() -> str:
            return f"{count} lines of {tag} with {facts}\n" + "".join(runner.stderr for runner in self.runners)

        return wait_until(answer, missing, within=within)

    # --------------------------------------------------------------------------------------------------------- processes

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """That of the tests without what is about cronpad, with the mark by which everything started here is found."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith("CRONPAD_")}
        return plain | {_MARK: str(self.root), _NUMBER: str(len(self.runners))} | dict(more or {})

    def command(self, *arguments: object) -> list[str]:
        """The command line of a call."""
        return [sys.executable, "-m", "cronpad_core.cli.main", *map(str, arguments)]

    def start(
        self, *options: object, file: Path | None = None, env: Mapping[str, str] | None = None, prefix: Sequence[str] = ()
    ) -> Running:
        """Starts a runner on the jobs file and the state."""
        number = len(self.runners)
        out, err = self.root / f"runner-{number}.out", self.root / f"runner-{number}.err"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [*prefix, *self.command("run", file or self.file, "--state", self.state, *options)],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=self.root,
                env=self.environment(env),
            )
        runner = Running(process, out, err, number)
        self.runners.append(runner)
        return runner

    def call(self, *arguments: object, env: Mapping[str, str] | None = None) -> Ended:
        """Calls the command and waits for its end."""
        done = subprocess.run(
            self.command(*arguments),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=self.root,
            env=self.environment(env),
            timeout=PATIENCE,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def leftovers(self) -> dict[int, str]:
        """Processes that commands of this place started and that still run."""
        runners = {runner.pid for runner in self.runners}
        return {pid: line for pid, line in processes_with(f"{_MARK}={self.root}\0").items() if pid not in runners}

    # ------------------------------------------------------------------------------------------------------------- state

    def rows(self, file: Path, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Reads from one of the three files, without ever writing it."""
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=10)) as db:
            return db.execute(statement, values).fetchall()

    def edit(self, file: Path, statement: str, *values: object) -> int:
        """Changes one of the three files by hand; answers how many rows."""
        with closing(sqlite3.connect(file, timeout=10)) as db, db:
            return db.execute(statement, values).rowcount

    def statuses(self) -> dict[str, str]:
        """The status of every run by its id."""
        return dict(self.rows(self.history, "SELECT id, status FROM runs"))

    def next_run(self, name: str) -> int | None:
        """When a job is due next, as stored."""
        [(slot_ms,)] = self.rows(self.control, "SELECT next_run_at FROM jobs WHERE name = ? AND status <> 'deleted'", name)
        return None if slot_ms is None else int(slot_ms)
