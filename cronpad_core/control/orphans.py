"""Runs of jobs that control does not know: control was lost, or replaced by an older one, while history stayed."""

from __future__ import annotations

from cronpad_core.control.audit_version import FindingKind, JobAudit
from cronpad_core.domain.job import Job, JobStatus
from cronpad_core.domain.run import Run
from cronpad_core.domain.timing import MINUTE, Millis
from cronpad_core.ports.storage import Storage

__all__ = ["orphans"]

_PAGE = 1_000


async def orphans(storage: Storage, *, since_ms: Millis | None = None) -> list[JobAudit]:
    """One audit with a finding for each such job, of the runs after ``since_ms`` that its ledger answers for."""
    known: dict[str, bool] = {}
    found: dict[str, list[Run]] = {}
    before: str | None = None
    while True:
        page = await storage.history.runs(before=before, limit=_PAGE)
        for run in page:
            job_id = run.key.job_id
            if job_id not in known:
                known[job_id] = await storage.catalog.job(job_id) is not None
            if not known[job_id] and run.key.scheduled_at_ms > (since_ms or 0):
                found.setdefault(job_id, []).append(run)
        if len(page) < _PAGE or page[-1].created_at_ms < (since_ms or 0) - MINUTE:
            break
        before = page[-1].id
    audits = []
    for job_id, runs in found.items():
        begins = await storage.history.ledger_from(job_id) or 0
        judged = sorted(run.key.scheduled_at_ms for run in runs if run.key.scheduled_at_ms >= begins)
        if judged:
            audit = JobAudit(job=_stand_in(runs[0]), known=False)
            detail = f"{len(judged):,} runs of job {job_id}, which control does not know"
            audit.find(FindingKind.NO_JOB, runs[0].job_version, judged[0], judged[-1], detail)
            audits.append(audit)
    return sorted(audits, key=lambda one: one.job.id)


def _stand_in(run: Run) -> Job:
    """The job as its newest run knew it."""
    return Job(
        id=run.key.job_id,
        origin="",
        version=run.job_version,
        status=JobStatus.DELETED,
        spec=run.spec,
        next_run_at_ms=None,
        valid_from_ms=run.created_at_ms,
    )
