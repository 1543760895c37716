"""One table of ``jobs`` becomes a job's specification; tables of the runner's JSON are turned into native keys first."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from cronpad_core.config.document import Document, Path
from cronpad_core.config.durations import LONGEST_MS
from cronpad_core.config.names import check_name
from cronpad_core.config.plugin_settings import Types, check_settings, warn_of_secrets
from cronpad_core.config.problems import Problems
from cronpad_core.config.rules import MOST_RETRIES
from cronpad_core.config.schedule_key import read_schedule
from cronpad_core.config.shared_keys import SHARED_KEYS, Shared, read_shared
from cronpad_core.config.table import Table, kind_of
from cronpad_core.domain.ids import job_id_for
from cronpad_core.domain.job import JobSpec, ShutdownStyle, SinkSpec
from cronpad_core.domain.timing import HOUR, MINUTE, JsonValue

__all__ = ["JOB_KEYS", "LATER_KEYS", "RUNNER_KEYS", "JobReader"]

RUNNER_KEYS: Final = ("timeout_ms", "max_retries", "jitter_ms")
JOB_KEYS: Final = ("name", "id", "schedule", "command", "sink", *SHARED_KEYS)
LATER_KEYS: Final = ("payload", "when", "depends_on")
_LARGEST_ENV: Final = 32 * 1024
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReader:
    """Reads the job tables of one file. ``runner``: the whole file is the runner's; ``written``: its data before ``${…}``."""

    document: Document
    problems: Problems
    types: Types
    defaults: Shared
    origin: str
    runner: bool
    written: dict[str, JsonValue]

    def read(self, at: int, data: dict[str, JsonValue]) -> tuple[JobSpec, str | None] | None:
        """The job and its declared id, or ``None`` after its problems were reported."""
        name = data.get("name")
        job = name if isinstance(name, str) and name.strip() else None
        table = Table(document=self.document, path=("jobs", at), data=data, problems=self.problems, job=job)
        before = self.problems.error_count
        runner = self.runner or any(key in data for key in RUNNER_KEYS)
        table.unknown((*JOB_KEYS, *RUNNER_KEYS), later=LATER_KEYS)
        self._check_identity(table)
        shared = read_shared(table, self.defaults, self.types)
        if runner:
            shared = self._read_runner_keys(table, shared)
        given_id = data.get("id")
        job_id = given_id if isinstance(given_id, str) else job_id_for(self.origin, job or "")
        schedule = read_schedule(table, shared, job_id, JOB_KEYS)
        sink = self._read_sink(table)
        if schedule is None or sink is None or job is None or self.problems.error_count > before:
            return None
        spec = JobSpec(
            name=job,
            schedule=schedule,
            sink=sink,
            workspace=shared.workspace,
            timeout_ms=shared.timeout_ms or (MINUTE if runner else HOUR),
            kill_grace_ms=shared.kill_grace_ms,
            retry=shared.retry,
            overlap=shared.overlap,
            concurrency=shared.concurrency,
            misfire=shared.misfire,
            jitter_ms=shared.jitter_ms,
            offset_ms=shared.offset_ms,
            grace_ms=shared.grace_ms,
            guarantee=shared.guarantee,
            shutdown=ShutdownStyle.AT_ONCE if runner else ShutdownStyle.GRACE,
            sla=shared.sla,
            tags=shared.tags,
            alerts=shared.alerts,
        )
        return spec, given_id if isinstance(given_id, str) else None

    def _check_identity(self, table: Table) -> None:
        if "name" not in table:
            table.missing("the job has no name", "name", JOB_KEYS)
        name = table.text("name")
        if name is not None:
            check_name(table, "name", name)
        job_id = table.text("id")
        if job_id is not None and not _ID.match(job_id):
            table.problem("CP126", "the id is not allowed", "id", label="letters, digits and _ . : - only, at most 128")

    def _read_runner_keys(self, table: Table, shared: Shared) -> Shared:
        """The runner's own keys, in milliseconds; the native spelling beside one of them is an error."""
        retry = table.data.get("retry")
        says_max = "retry" in table and (not isinstance(retry, dict) or "max" in retry)
        for key, other, clash in (
            ("timeout_ms", "timeout", "timeout" in table),
            ("max_retries", "retry", says_max),
            ("jitter_ms", "jitter", "jitter" in table),
        ):
            if key in table and clash:
                table.problem("CP122", f"{key} and {other} say the same thing twice", other, key=True, hint="keep one of them")
        timeout = table.whole("timeout_ms", low=1, high=LONGEST_MS, unit=" of milliseconds")
        retries = table.whole("max_retries", low=0, high=MOST_RETRIES)
        jitter = table.whole("jitter_ms", low=0, high=LONGEST_MS, unit=" of milliseconds")
        return replace(
            shared,
            timeout_ms=shared.timeout_ms if timeout is None else timeout,
            retry=shared.retry if retries is None else replace(shared.retry, max=retries),
            jitter_ms=shared.jitter_ms if jitter is None else jitter,
        )

    def _read_sink(self, table: Table) -> SinkSpec | None:
        """Where runs go: the ``sink`` table, or ``command`` as the short way to write one."""
        if "command" not in table and "sink" not in table:
            hint = 'for example command = "backup.sh"'
            table.missing("the job has no command and no sink", "command", JOB_KEYS, hint=hint)
            return None
        settings: dict[str, JsonValue] = {}
        name: str | None = "command"
        if "sink" in table:
            given = table.table("sink", wanted='a table such as { type = "webhook", url = "…" }')
            if given is None:
                return None
            settings = {key: value for key, value in given.data.items() if key != "type" and not key.startswith("x-")}
            if "type" in given:
                name = given.text("type")
            elif "command" not in table:
                known = ", ".join(sorted(self.types.sinks))
                given.problem("CP121", "the sink has no type", hint=f"known: {known}")
                return None
        if name is None:
            return None
        if "command" in table:
            if name != "command":
                table.problem("CP122", f'command and the sink "{name[:60]}" say two different things', "command", key=True)
                return None
            if "command" in settings:
                table.problem("CP122", "command and sink.command say the same thing twice", "command", key=True)
            settings["command"] = table.data["command"]
        return self._checked(table, name, settings)

    def _checked(self, table: Table, name: str, settings: dict[str, JsonValue]) -> SinkSpec | None:
        top = "command" in table

        def where(path: Path) -> Path:
            if path and path[0] == "command" and top:
                return path
            return ("sink", *path) if "sink" in table else path

        if name not in self.types.sinks:
            at = ("sink", "type") if "type" in (table.data.get("sink") or ()) else ("command",)  # type: ignore[operator]  # a table, read above
            self.types.refuse(table, "sink", name, self.types.sinks, *at)
            return None
        if name == "command" and not _is_command(table, settings.get("command"), where(("command",))):
            return None
        _check_env(table, settings.get("env"), where(("env",)))
        check_settings(table, settings, self.types.sinks[name], where, f'the sink "{name}"')
        written = self._written(table.path).get("sink")
        if isinstance(written, dict):
            warn_of_secrets(table, written, ("sink",))
        return SinkSpec(type=name, settings=settings)

    def _written(self, path: Path) -> dict[str, JsonValue]:
        jobs = self.written["jobs"]
        job = jobs[int(path[1])] if isinstance(jobs, list) else None
        return job if isinstance(job, dict) else {}


def _check_env(table: Table, env: JsonValue, at: Path) -> None:
    """Reports an environment that is too large to be stored with each job."""
    if isinstance(env, dict):
        size = sum(len(name.encode()) + len(str(value).encode()) for name, value in env.items())
        if size > _LARGEST_ENV:
            table.problem("CP125", "env is too large", *at, label=f"{size} bytes; at most {_LARGEST_ENV} are allowed")


def _is_command(table: Table, value: JsonValue, at: Path) -> bool:
    """Whether the value can be a command; what the sink itself checks comes after."""
    match value:
        case str() if value.strip():
            return True
        case str():
            table.problem("CP125", "the command is empty", *at)
        case []:
            table.problem("CP125", "the command is an empty list", *at, hint='for example ["backup.sh", "/data"]')
        case list():
            odd = next((index for index, item in enumerate(value) if not isinstance(item, str)), None)
            if odd is None:
                return True
            hint = (
                f'did you mean "{value[odd]}"?'
                if isinstance(value[odd], int | float) and not isinstance(value[odd], bool)
                else None
            )
            table.problem("CP120", "a command is a list of texts", *at, odd, label=f"this is {kind_of(value[odd])}", hint=hint)
        case None if at[-1] == "command" and "command" not in table:
            table.problem("CP121", 'the sink "command" needs the key command', "sink", hint='for example command = "backup.sh"')
        case _:
            table.problem("CP120", "command must be a text or a list of texts", *at, label=f"this is {kind_of(value)}")
    return False
