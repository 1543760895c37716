"""Looking things up in a state: runs by id, prefix or job, jobs by name. Reads only."""

from __future__ import annotations

from collections.abc import Sequence

from cronpad_core.domain.errors import NotFoundError
from cronpad_core.domain.job import Job, JobStatus
from cronpad_core.domain.run import Run, RunStatus
from cronpad_core.ports.catalog import CatalogStore
from cronpad_core.ports.history import HistoryStore

__all__ = ["all_jobs", "find_job", "find_run", "list_runs"]

_PAGE = 1_000
_SEARCHED = 5_000


async def all_jobs(catalog: CatalogStore, *, deleted: bool = False) -> list[Job]:
    """All jobs, by name; removed ones only where asked for."""
    found: list[Job] = []
    after = ""
    while True:
        page = await catalog.jobs(after=after, limit=_PAGE)
        found += [job for job in page if deleted or job.status is not JobStatus.DELETED]
        if len(page) < _PAGE:
            return sorted(found, key=lambda job: (job.spec.name, job.id))
        after = page[-1].id


async def find_job(catalog: CatalogStore, word: str) -> Job:
    """The job of that id, or the one job of that name. Raises ``NotFoundError`` where there is none, or several."""
    job = await catalog.job(word)
    if job is not None:
        return job
    named = await catalog.jobs_named(word)
    if len(named) == 1:
        return named[0]
    if named:
        ids = ", ".join(f"{one.id} (of {one.origin})" for one in named)
        raise NotFoundError(f'several jobs are named "{word}"', hint=f"give the id: {ids}")
    raise NotFoundError(f'no job "{word}" in this state', hint="'cronpad jobs list' shows what there is")


async def list_runs(
    catalog: CatalogStore, history: HistoryStore, *, job: str | None, statuses: Sequence[RunStatus], limit: int
) -> list[Run]:
    """The newest runs, of one job where a name or id is given. Raises ``NotFoundError`` for an unknown job."""
    job_id = (await find_job(catalog, job)).id if job is not None else None
    found: list[Run] = []
    while len(found) < limit:
        size = min(_PAGE, limit - len(found))
        before = found[-1].id if found else None
        page = await history.runs(job_id=job_id, statuses=statuses, before=before, limit=size)
        found += page
        if len(page) < size:
            break
    return found


async def find_run(catalog: CatalogStore, history: HistoryStore, word: str) -> Run:
    """The run of that id, or of the one id that begins so, or the newest run of the job of that name. Raises ``NotFoundError``."""
    run = await history.run_by_id(word)
    if run is not None:
        return run
    if word.startswith("run_"):
        near = [one for one in await history.runs(limit=_SEARCHED) if one.id.startswith(word)]
        if len(near) == 1:
            return near[0]
        if near:
            raise NotFoundError(f'"{word}" begins {len(near)} run ids', hint="give more of the id")
        raise NotFoundError(f'no run "{word}" in this state', hint="'cronpad runs list' shows the newest")
    job = await find_job(catalog, word)
    newest = [one for one in await history.runs(job_id=job.id, limit=20) if one.status is not RunStatus.SKIPPED]
    if not newest:
        raise NotFoundError(f'job "{word}" has no run yet')
    return newest[0]
