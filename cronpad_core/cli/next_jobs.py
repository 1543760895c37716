"""``cronpad next --file``: the fires of a file's jobs, merged. Apart from ``next``, which must not import what reads files."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from cronpad_core.api import job_id_for
from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Output
from cronpad_core.cli.plugin import host_of
from cronpad_core.cli.schedule_text import Fire, fires_of, print_fires, start_of
from cronpad_core.config.jobsfile import DeclaredJob, load_jobs
from cronpad_core.domain.errors import NotFoundError
from cronpad_core.domain.timing import JsonValue
from cronpad_core.runtime.schedules import read_schedule
from cronpad_core.schedules import Timeline

__all__ = ["next_of_jobs"]


def next_of_jobs(invocation: Invocation, out: Output, file: Path, *, name: str | None, count: int, after: str | None) -> None:
    """Prints the next ``count`` fires of the file's jobs together, or of the job ``name``; raises ``NotFoundError`` for none."""
    host = host_of(invocation, out, files=[file])
    loaded = load_jobs(
        [file],
        sinks=host.registry.sink_models(),
        misfires=host.registry.misfire_models(),
        emitters=host.registry.emitter_models(),
        environ=invocation.environ,
        unavailable=host.registry.unavailable(),
    )
    jobs = [one for one in loaded.specs if name is None or one.spec.name == name]
    if not jobs:
        names = ", ".join(one.spec.name for one in loaded.specs)
        raise NotFoundError(f"no job '{name}' in {file}", hint=f"there are: {names}" if names else None)
    now_ms = invocation.now_ms()
    merged = heapq.merge(*(_fires(one, after, now_ms, count) for one in jobs), key=lambda pair: pair[1].at)
    found = list(islice(merged, count))
    if out.wants_json:
        items: list[Mapping[str, JsonValue]] = [{"job": job, **fire.to_json()} for job, fire in found]
        out.document("next", items)
        return
    print_fires(out, [fire for _, fire in found], now_ms if after is None else None, named=[job for job, _ in found])


def _fires(job: DeclaredJob, after: str | None, now_ms: int, count: int) -> Iterator[tuple[str, Fire]]:
    schedule = _schedule_of(job)
    for fire in fires_of(schedule, start_of(after, schedule, now_ms), count):
        yield job.spec.name, fire


def _schedule_of(job: DeclaredJob) -> Timeline:
    # As for a first version: what '~' draws anew with each edit, and where an interval counts from, only a state knows.
    job_id = job.id or job_id_for(job.origin, job.spec.name)
    return read_schedule(job_id, 1, job.spec.schedule)
