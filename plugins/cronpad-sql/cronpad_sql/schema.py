"""The tables of the three files. Control and history come to this by migrations, the queue is made as it stands here."""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, LargeBinary, MetaData, Table, Text, UniqueConstraint, text

__all__ = ["control", "history", "queue"]

control = MetaData()
history = MetaData()
queue = MetaData()


def _term(metadata: MetaData) -> None:
    """The record of the holder: one row whose shape never changes, so that every version can read it."""
    Table(
        "term",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("term", Integer, nullable=False),
        Column("holder", Text),
        Column("released", Integer, nullable=False),
    )


_term(control)
_term(history)

# ------------------------------------------------------------------------------------------------------------- control

Table(
    "workspaces",
    control,
    Column("name", Text, primary_key=True),
    Column("suspended", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("quota", Integer),
    Column("quota_blocking", Integer, nullable=False),
    Column("concurrency", Integer),
    sqlite_with_rowid=False,
)

jobs = Table(
    "jobs",
    control,
    Column("id", Text, primary_key=True),
    Column("origin", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("spec", Text, nullable=False),
    Column("next_run_at", Integer),
    Column("valid_from", Integer, nullable=False),
    Column("replay_until", Integer),
    Column("replay_then", Integer),
    Column("clock_epoch", Integer, nullable=False),
    Column("paused_reason", Text),
    Column("paused_until", Integer),
)
Index("jobs_by_name", jobs.c.name)
Index("jobs_by_next_run", jobs.c.next_run_at, jobs.c.id, sqlite_where=text("status = 'active' AND next_run_at IS NOT NULL"))

job_versions = Table(
    "job_versions",
    control,
    Column("job_id", Text, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("spec", Text, nullable=False),
    Column("valid_from", Integer, nullable=False),
    Column("valid_until", Integer),
    Column("open_from", Integer),
    Column("owed", Integer, nullable=False),  # 1 while the ledger lacks the slots that this version left open
)
Index("job_versions_owed", job_versions.c.valid_until, job_versions.c.job_id, sqlite_where=text("owed = 1"))

# ------------------------------------------------------------------------------------------------------------- history

Table(
    "specs",
    history,
    Column("id", Integer, primary_key=True),
    Column("job_id", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("hash", Text, nullable=False),
    Column("spec", Text, nullable=False),
    UniqueConstraint("job_id", "version", "hash", name="specs_by_content"),
)

runs = Table(
    "runs",
    history,
    Column("seq", Integer, primary_key=True),
    Column("id", Text, nullable=False),
    Column("job_id", Text, nullable=False),
    Column("scheduled_at", Integer, nullable=False),
    Column("trigger", Text, nullable=False),
    Column("job_version", Integer, nullable=False),
    Column("spec_id", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("slot_at", Integer, nullable=False),
    Column("created_at", Integer, nullable=False),
    Column("opened_at", Integer),
    Column("finished_at", Integer),
    Column("retry_attempt", Integer),
    Column("retry_at", Integer),
    Column("retry_of", Text),
    Column("skip_reason", Text),
    Column("reason", Text, nullable=False),
    Column("redeliveries", Integer, nullable=False),
    Column("clean", Integer, nullable=False),
    Column("cancel_requested", Integer, nullable=False),
    Column("ended", Integer, nullable=False),  # 1 for a terminal status
    Column("workspace", Text, nullable=False, server_default="default"),
    Column("scope_key", Text),  # the concurrency key of its settings
    Column("payload", Text),
    Column("token", Text),
    UniqueConstraint("job_id", "scheduled_at", "trigger", name="runs_by_key"),
    UniqueConstraint("id", name="runs_by_id"),
)
Index(  # with all that limits count by; without "ended" SQLite would look at each row
    "runs_unfinished",
    runs.c.status,
    runs.c.job_id,
    runs.c.workspace,
    runs.c.scope_key,
    runs.c.ended,
    sqlite_where=text("ended = 0"),
)
Index("runs_unfinished_by_id", runs.c.id, sqlite_where=text("ended = 0"))
Index("runs_by_creation", runs.c.created_at, runs.c.id)
Index("runs_of_job", runs.c.job_id, runs.c.created_at, runs.c.id, runs.c.spec_id)  # the last: to see which specs are left
Index("runs_by_token", runs.c.job_id, runs.c.token, unique=True, sqlite_where=text("token IS NOT NULL"))

Table(
    "attempts",
    history,
    Column("run_seq", Integer, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("fence", Integer, primary_key=True),
    Column("status", Text, nullable=False),
    Column("due_at", Integer, nullable=False),
    Column("claimed_at", Integer, nullable=False),
    Column("opened_at", Integer, nullable=False),
    Column("sent_at", Integer),
    Column("finished_at", Integer),
    Column("held_since", Integer),
    Column("reason", Text, nullable=False),
    Column("exit_code", Integer),
    Column("facts", Text),
    sqlite_with_rowid=False,
)

Table(
    "outputs",
    history,
    Column("run_seq", Integer, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("fence", Integer, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("total", Integer, nullable=False),
    Column("head", LargeBinary, nullable=False),
    Column("tail", LargeBinary, nullable=False),
)

ranges = Table(
    "ranges",
    history,
    Column("job_id", Text, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("first_at", Integer, primary_key=True),  # ranges of a version never overlap, so the kind adds nothing to the key
    Column("last_at", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("slots", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    sqlite_with_rowid=False,
)
Index("ranges_by_end", ranges.c.last_at)

Table(
    "ledger",
    history,
    Column("job_id", Text, primary_key=True),  # '*' for all jobs
    Column("from_at", Integer, nullable=False),
    sqlite_with_rowid=False,
)

Table(
    "usage",
    history,
    Column("workspace", Text, primary_key=True),
    Column("month", Text, primary_key=True),
    Column("runs", Integer, nullable=False),
    sqlite_with_rowid=False,
)

backfills = Table(
    "backfills",
    history,
    Column("id", Text, primary_key=True),
    Column("job_id", Text, nullable=False),
    Column("job_version", Integer, nullable=False),
    Column("from_at", Integer, nullable=False),
    Column("to_at", Integer, nullable=False),
    Column("cursor_at", Integer, nullable=False),
    Column("created_at", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("overlap_policy", Text),
    Column("overlap_max", Integer),
    Column("started", Integer, nullable=False),
    Column("passed", Integer, nullable=False),
    Column("finished_at", Integer),
    sqlite_with_rowid=False,
)
Index("backfills_by_creation", backfills.c.created_at, backfills.c.id)
Index("backfills_of_job", backfills.c.job_id, backfills.c.created_at, backfills.c.id)
Index("backfills_open", backfills.c.created_at, backfills.c.id, sqlite_where=text("status = 'open'"))

Table(
    "alert_states",
    history,
    Column("job_id", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("failures", Integer, nullable=False),
    Column("open", Text, nullable=False),
    sqlite_with_rowid=False,
)

Table(
    "alert_channels",
    history,
    Column("name", Text, primary_key=True),
    Column("snoozed_until", Integer, nullable=False),
    Column("window_from", Integer, nullable=False),
    Column("window_count", Integer, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("rest_until", Integer, nullable=False),
    Column("failing_told", Integer, nullable=False),
    Column("dropped", Integer, nullable=False),
    sqlite_with_rowid=False,
)

outbox = Table(
    "outbox",
    history,
    Column("seq", Integer, primary_key=True),
    Column("id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("lane", Text, nullable=False),
    Column("kind", Text),
    Column("items", Text, nullable=False),
    Column("created_at", Integer, nullable=False),
    Column("next_at", Integer, nullable=False),
    Column("give_up_at", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("gathering", Integer, nullable=False),
    Column("left_out", Integer, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("error", Text, nullable=False),
    Column("settled_at", Integer),
    Column("taken_term", Integer),
    UniqueConstraint("id", name="outbox_by_id"),
)
Index("outbox_waiting", outbox.c.name, outbox.c.lane, outbox.c.seq, sqlite_where=text("status = 'pending'"))
Index("outbox_gathering", outbox.c.name, sqlite_where=text("status = 'pending' AND gathering = 1"))
Index("outbox_settled", outbox.c.settled_at, sqlite_where=text("status <> 'pending'"))

# --------------------------------------------------------------------------------------------------------------- queue

Table(
    "meta",
    queue,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    sqlite_with_rowid=False,
)

due = Table(
    "due",
    queue,
    Column("member", Text, primary_key=True),
    Column("at", Integer, nullable=False),
    Column("fence", Integer),  # of the lease that the reaper ended
    Column("held_since", Integer),
    sqlite_with_rowid=False,
)
Index("due_in_order", due.c.at, due.c.member)

inflight = Table(
    "inflight",
    queue,
    Column("member", Text, primary_key=True),
    Column("at", Integer, nullable=False),  # lease time: when the lease ends
    Column("owner", Text, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("due_at", Integer, nullable=False),
    Column("held_since", Integer),
    sqlite_with_rowid=False,
)
Index("inflight_in_order", inflight.c.at, inflight.c.member)
Index("inflight_by_fence", inflight.c.owner, inflight.c.fence)
