"""One jobs file on its way to declared jobs: the top table, the defaults, the jobs, the alerts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from cronpad_core.config.alert_table import read_alert
from cronpad_core.config.document import Document, Path
from cronpad_core.config.interpolation import fill
from cronpad_core.config.job_table import RUNNER_KEYS, JobReader
from cronpad_core.config.plugin_settings import Types
from cronpad_core.config.problems import Place, Problem, Problems, Severity, did_you_mean
from cronpad_core.config.shared_keys import SHARED_KEYS, Shared, read_shared
from cronpad_core.config.table import Table, kind_of
from cronpad_core.domain.alerts import AlertSpec
from cronpad_core.domain.job import JobSpec
from cronpad_core.domain.timing import JsonValue

__all__ = ["DeclaredJob", "Gathered", "JobsFile"]

_TOP_KEYS: Final = ("version", "defaults", "jobs", "alerts")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredJob:
    """One job of a file: what is declared, its ``id`` key if it has one, and the file's absolute path as its origin.

    ``locate_alert`` finds the place where it names an alert.
    """

    spec: JobSpec
    id: str | None
    origin: str
    locate: Callable[[], Place] = field(compare=False, repr=False)
    locate_alert: Callable[[str], Place] = field(compare=False, repr=False)

    @property
    def place(self) -> Place:
        """Where the job stands. Found when asked for: finding places costs more than reading."""
        return self.locate()


@dataclass(slots=True, kw_only=True)
class Gathered:
    """What the files said so far, to find clashes between them."""

    problems: Problems
    jobs: list[DeclaredJob] = field(default_factory=list)
    alerts: dict[str, AlertSpec] = field(default_factory=dict)
    seen: dict[tuple[str, str], Callable[[], Place]] = field(default_factory=dict)
    rooms: dict[str, tuple[int, Callable[[], Place]]] = field(default_factory=dict)

    def claim(self, kind: str, word: str, locate: Callable[[], Place], job: str | None) -> None:
        """Reports a name, an id or an alert that was there before."""
        first = self.seen.setdefault((kind, word), locate)
        if first is not locate:
            message = f'two {"alerts" if kind == "alert" else "jobs"} have the {"id" if kind == "id" else "name"} "{word[:128]}"'
            label = f"first at {first()}"
            self.problems.add(
                Problem(code="CP113", message=message, place=locate(), label=label, job=job if kind == "id" else None)
            )

    def share(self, spec: JobSpec, locate: Callable[[], Place]) -> None:
        """Warns of a concurrency key that another job gives another ``max``."""
        rule = spec.concurrency
        if rule is None or rule.key is None:
            return
        most, first = self.rooms.setdefault(rule.key, (rule.max, locate))
        if most != rule.max:
            self.problems.add(
                Problem(
                    code="CP130",
                    message=f'the concurrency key "{rule.key}" has max = {rule.max} here, and max = {most} elsewhere',
                    place=locate(),
                    severity=Severity.WARNING,
                    label=f"first at {first()}",
                    job=spec.name,
                    hint="each job keeps to its own max; give all jobs of a key the same",
                )
            )

    def check_alert_names(self) -> None:
        """Reports alerts that a job names and no file declares."""
        for job in self.jobs:
            for name in job.spec.alerts:
                if ("alert", name) not in self.seen:
                    self.problems.add(
                        Problem(
                            code="CP128",
                            message=f'the alert "{name}" is not declared',
                            place=job.locate_alert(name),
                            label=f"declared: {', '.join(sorted(self.alerts)) or 'none'}",
                            job=job.spec.name,
                            hint=did_you_mean(name, self.alerts) or f"write a table [alerts.{name}]",
                        )
                    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsFile:
    """One document on its way to jobs."""

    document: Document
    origin: str
    problems: Problems
    types: Types
    environ: Mapping[str, str]

    def read(self, gathered: Gathered) -> None:
        """Adds the file's jobs and alerts to what was gathered."""
        data = self.document.data
        if not isinstance(data, dict):
            place = self.document.locate(())
            message = "a jobs file is a table with version and jobs"
            self.problems.add(Problem(code="CP120", message=message, place=place, label=f"this is {kind_of(data)}"))
            return
        runner = self.document.kind == "json" and "version" not in data
        filled = data if runner or self.document.kind == "crontab" else self._filled(data)
        top = Table(document=self.document, path=(), data=filled, problems=self.problems)
        self._check_top(top, runner=runner)
        defaults = self._defaults(top)
        reader = JobReader(
            document=self.document,
            problems=self.problems,
            types=self.types,
            defaults=defaults,
            origin=self.origin,
            runner=runner,
            written=data,
        )
        self._jobs(top, reader, gathered)
        self._alerts(top, gathered, data)

    def _filled(self, data: dict[str, JsonValue]) -> dict[str, JsonValue]:
        jobs = data.get("jobs")
        tables = jobs if isinstance(jobs, list) else []

        def leave(path: Path) -> bool:
            if path and isinstance(path[-1], str) and path[-1].startswith("x-"):
                return True
            if len(path) < 2 or path[0] != "jobs" or not isinstance(path[1], int):
                return False
            job = tables[path[1]]
            if not isinstance(job, dict):
                return False
            if any(key in job for key in RUNNER_KEYS) or path[2:] == ("command",):
                return True
            return path[2:] == ("sink", "command")

        def report(path: Path, text: str, within: tuple[int, int], message: str, hint: str | None) -> None:
            self.document.unfilled.add(path)
            job = tables[path[1]] if path[:1] == ("jobs",) and len(path) > 1 and isinstance(path[1], int) else None
            name = job.get("name") if isinstance(job, dict) else None
            place = self.document.locate(path, within=within, raw=text)
            named = name if isinstance(name, str) else None
            self.problems.add(Problem(code="CP111", message=message, place=place, job=named, hint=hint))

        filled = fill(data, self.environ, report, leave=leave)
        assert isinstance(filled, dict), "a table stays a table"
        return filled

    def _check_top(self, top: Table, *, runner: bool) -> None:
        if runner:
            for key in top.data:
                if key in ("defaults", "alerts"):
                    hint = 'a native jobs file has "version": 1'
                    top.problem("CP101", f'the runner\'s JSON has no "{key}"', key, key=True, hint=hint)
            top.unknown(_TOP_KEYS)
        else:
            top.unknown(_TOP_KEYS)
            self._check_version(top)
        if "jobs" not in top and (runner or "alerts" not in top):
            top.missing('the file has no "jobs"', "jobs", _TOP_KEYS)

    def _check_version(self, top: Table) -> None:
        hint = "write version = 1" if top.document.kind == "toml" else "write version: 1"
        if "version" not in top:
            top.missing("the file has no version", "version", _TOP_KEYS, hint=hint)
        elif (version := top.data["version"]) != 1 or isinstance(version, bool | float):
            top.problem("CP125", "this version of the jobs file is not known", "version", label="known: 1")

    def _defaults(self, top: Table) -> Shared:
        table = top.table("defaults")
        if table is None:
            return Shared()
        table.unknown(SHARED_KEYS, what="defaults")
        return read_shared(table, Shared(), self.types)

    def _jobs(self, top: Table, reader: JobReader, gathered: Gathered) -> None:
        jobs = top.data.get("jobs")
        if "jobs" in top and not isinstance(jobs, list):
            top.wrong_type("jobs", "a list of tables")
        for at, job in enumerate(jobs if isinstance(jobs, list) else ()):
            if not isinstance(job, dict):
                top.problem("CP120", "a job must be a table", "jobs", at, label=f"this is {kind_of(job)}")
                continue
            read = reader.read(at, job)
            name, job_id = job.get("name"), job.get("id")
            for kind, word in (("name", name), ("id", job_id)):
                if isinstance(word, str) and word.strip():
                    gathered.claim(kind, word, self._locator("jobs", at, kind), name if isinstance(name, str) else None)
            if read is not None:
                spec, given_id = read
                gathered.share(spec, self._locator("jobs", at, "concurrency"))
                gathered.jobs.append(
                    DeclaredJob(
                        spec=spec,
                        id=given_id,
                        origin=self.origin,
                        locate=self._locator("jobs", at, "name"),
                        locate_alert=partial(self._place_of_alert, top, at),
                    )
                )

    def _locator(self, *path: str | int) -> Callable[[], Place]:
        return lambda: self.document.locate(path)

    def _place_of_alert(self, top: Table, at: int, name: str) -> Place:
        """Where the job, or the defaults, name the alert."""
        jobs, defaults = top.data.get("jobs"), top.data.get("defaults")
        tables: list[tuple[Path, JsonValue]] = [(("defaults",), defaults)]
        if isinstance(jobs, list):
            tables.insert(0, (("jobs", at), jobs[at]))
        for path, table in tables:
            names = table.get("alerts") if isinstance(table, dict) else None
            if isinstance(names, list) and name in names:
                return self.document.locate((*path, "alerts", names.index(name)))
        return self.document.locate(("jobs", at, "name"))

    def _alerts(self, top: Table, gathered: Gathered, written: dict[str, JsonValue]) -> None:
        alerts = top.table("alerts", wanted="a table of alerts")
        if alerts is None:
            return
        for name in alerts.data:
            if name.startswith("x-"):
                continue
            table = alerts.table(name)
            if table is None:
                continue
            gathered.claim("alert", name, self._locator("alerts", name), None)
            raw = written.get("alerts")
            spec = read_alert(table, name, self.types, raw.get(name) if isinstance(raw, dict) else None)
            if spec is not None:
                gathered.alerts[name] = spec
