"""What ``cronpad run`` does once its options are read: list, dry-run, once, or run."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Cell, Output, Styled
from cronpad_core.cli.plugin import host_of
from cronpad_core.cli.run_view import RunView
from cronpad_core.cli.schedule_text import Fire, fires_of
from cronpad_core.config.jobsfile import LoadedFiles, load_jobs
from cronpad_core.config.problems import Problem
from cronpad_core.config.settings import Settings, load_settings
from cronpad_core.control.apply import Declared
from cronpad_core.domain.errors import NotFoundError
from cronpad_core.domain.timing import JsonValue, from_ms
from cronpad_core.host.loader import PluginHost
from cronpad_core.host.missing import missing_packages
from cronpad_core.runtime.init import become_init
from cronpad_core.runtime.interpreter import settle_interpreter
from cronpad_core.runtime.lifecycle import DeclaredFiles, Runner, RunnerOptions
from cronpad_core.runtime.once import run_once
from cronpad_core.runtime.schedules import read_schedule
from cronpad_core.runtime.state import state_url
from cronpad_core.schedules import Timeline

__all__ = ["Session", "dry_run", "list_jobs", "once", "serve"]

_DRY_FIRES = 5
_LAST_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One call of ``run``: what was asked, the plugins, the settings, and how to read the files."""

    invocation: Invocation
    out: Output
    files: tuple[Path, ...]
    host: PluginHost
    settings: Settings
    system: bool

    @classmethod
    def open(
        cls,
        invocation: Invocation,
        out: Output,
        files: tuple[Path, ...],
        *,
        system: bool,
        overrides: Mapping[str, JsonValue],
    ) -> Session:
        """Loads plugins and settings. Raises ``ConfigurationError`` and ``PluginError``."""
        config = Path(invocation.config) if invocation.config else None
        settings = load_settings(config, invocation.environ, overrides)
        host = host_of(invocation, out, files=files)
        missing = missing_packages({(one.kind, one.name) for one in host.registry.types})
        if len(missing) > 1:
            out.warn(
                f"little more than the core is here; missing: {', '.join(missing)} (in a checkout: pip install ./plugins/*/)"
            )
        return cls(invocation=invocation, out=out, files=files, host=host, settings=settings, system=system)

    def read(self) -> LoadedFiles:
        """Reads the files. Raises ``ConfigurationError`` with all problems, or ``PluginError``."""
        registry = self.host.registry
        return load_jobs(
            self.files,
            sinks=registry.sink_models(),
            misfires=registry.misfire_models(),
            emitters=registry.emitter_models(),
            environ=self.invocation.environ,
            unavailable=registry.unavailable(),
            system=self.system,
        )

    def declared(self) -> DeclaredFiles:
        """The jobs and alerts of the files, and the files they come from; warnings are said on stderr."""
        loaded = self.read()
        self.warn(loaded.warnings)
        declared = [Declared(spec=one.spec, origin=one.origin, id=one.id) for one in loaded.specs]
        return DeclaredFiles(jobs=declared, origins=loaded.origins, alerts=loaded.alerts)

    def warn(self, warnings: tuple[Problem, ...]) -> None:
        """Says the warnings of the files, each on a line."""
        for problem in warnings:
            self.out.say(f"warning[{problem.code}]: {problem.place}: {problem.message}", "warn")

    def runner(self, view: RunView, *, url: str, stand_by: bool, exit_when_idle: bool) -> Runner:
        """A runner over these files. Raises what reading the files raises."""
        options = RunnerOptions(
            url=url,
            load=self.declared,
            settings=self.settings,
            environ=self.invocation.environ,
            stand_by=stand_by,
            exit_when_idle=exit_when_idle,
        )
        return Runner(options, self.host, view)

    def url(self) -> str:
        """Where state is kept."""
        return state_url(self.invocation.state, self.invocation.environ, list(self.files))


def _schedules(session: Session) -> list[tuple[Declared, Timeline]]:
    declared = session.declared().jobs
    return [(one, read_schedule(one.job_id, 1, one.spec.schedule)) for one in declared]


def list_jobs(session: Session) -> int:
    """Name, schedule and next fire of each job."""
    now = from_ms(session.invocation.now_ms())
    items: list[Mapping[str, JsonValue]] = []
    rows: list[list[Cell]] = []
    for one, schedule in _schedules(session):
        fire = schedule.next_after(now)
        shown = fire.isoformat() if fire else None
        texts = " | ".join(one.spec.schedule.texts)
        items.append({"name": one.spec.name, "id": one.job_id, "schedule": texts, "next": shown})
        rows.append([Styled(one.spec.name, "strong"), texts, shown or Styled("never", "dim")])
    if session.out.wants_json:
        session.out.document("jobs", items)
    else:
        session.out.table(("name", "schedule", "next"), rows)
    return 0


def dry_run(session: Session) -> int:
    """The next fires of each job; nothing is run or stored."""
    items: list[Mapping[str, JsonValue]] = []
    for one, schedule in _schedules(session):
        now = session.invocation.now_ms()
        fires: list[Fire] = list(fires_of(schedule, from_ms(now), _DRY_FIRES))
        items.append({"name": one.spec.name, "fires": [fire.at.isoformat() for fire in fires]})
        if not session.out.wants_json:
            session.out.line(Styled(one.spec.name, "strong"), f"  {' | '.join(one.spec.schedule.texts)}")
            for fire in fires:
                note = f"  ({fire.note})" if fire.note else ""
                session.out.line(f"  {fire.at.isoformat()}{note}")
    if session.out.wants_json:
        session.out.document("dry-run", items)
    return 0


def once(session: Session, name: str) -> int:
    """Runs one job now; its last attempt's exit code."""
    url = session.url() if session.invocation.state else "memory://"
    view = RunView(session.invocation, session.out, quiet=True, passthrough=True)

    async def go() -> int:
        runner = session.runner(view, url=url, stand_by=False, exit_when_idle=False)
        declared = next((one for one in runner.declared if one.spec.name == name), None)
        if declared is None:
            known = ", ".join(sorted(one.spec.name for one in runner.declared))
            raise NotFoundError(f'no job "{name}" in {", ".join(map(str, session.files))}', hint=f"there are: {known}")
        return await _once_interruptible(runner, declared)

    return _run(go())


async def _once_interruptible(runner: Runner, declared: Declared) -> int:
    """Runs the job; SIGINT and SIGTERM cancel it in an orderly way, and a second one at once. Then the code is 128+n."""
    loop, ended_by = asyncio.get_running_loop(), list[int]()
    task = asyncio.ensure_future(run_once(runner, declared))

    def end(number: int) -> None:
        ended_by.append(number)
        running = [holding.cancel for holding in runner.engine.holdings if holding.cancel is not None]
        if len(ended_by) > 1 or not running:
            task.cancel()
        for cancel in running:
            cancel.ask("stop", f"interrupted by {signal.Signals(number).name}")

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end, number)
    try:
        code = (await task).exit_code
    except asyncio.CancelledError:
        if not ended_by:
            raise
        code = 0
    return 128 + ended_by[0] if ended_by else code


def serve(session: Session, *, stand_by: bool, exit_when_idle: bool) -> int:
    """Runs until stopped. As process 1 of a container it does so in a child."""
    code = become_init()
    if code is not None:
        return code
    settle_interpreter()
    view = RunView(session.invocation, session.out)

    async def go() -> int:
        url = session.url()
        runner = session.runner(view, url=url, stand_by=stand_by, exit_when_idle=exit_when_idle)
        view.began(url, runner.declared, runner.clock)
        return await runner.run()

    return _run(go())


def _run(main: Coroutine[object, object, int]) -> int:
    """As ``asyncio.run``, which would wait for ever for a plugin's task that swallows its cancellation."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(main)
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            _, stuck = loop.run_until_complete(asyncio.wait(left, timeout=_LAST_S))
            if stuck:
                loop.set_exception_handler(lambda *_: None)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
