"""Runs, attempts, outputs and ranges."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates the first tables; ``term`` is there before any migration."""
    _create_runs()
    op.create_table(
        "attempts",
        sa.Column("run_seq", sa.Integer, primary_key=True),
        sa.Column("attempt", sa.Integer, primary_key=True),
        sa.Column("fence", sa.Integer, primary_key=True),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("due_at", sa.Integer, nullable=False),
        sa.Column("claimed_at", sa.Integer, nullable=False),
        sa.Column("opened_at", sa.Integer, nullable=False),
        sa.Column("sent_at", sa.Integer),
        sa.Column("finished_at", sa.Integer),
        sa.Column("held_since", sa.Integer),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("exit_code", sa.Integer),
        sa.Column("facts", sa.Text),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "outputs",
        sa.Column("run_seq", sa.Integer, primary_key=True),
        sa.Column("attempt", sa.Integer, primary_key=True),
        sa.Column("fence", sa.Integer, primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("head", sa.LargeBinary, nullable=False),
        sa.Column("tail", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "ranges",
        sa.Column("job_id", sa.Text, primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True),
        sa.Column("first_at", sa.Integer, primary_key=True),
        sa.Column("last_at", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("slots", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )


def _create_runs() -> None:
    op.create_table(
        "specs",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.UniqueConstraint("job_id", "version", "hash", name="specs_by_content"),
    )
    op.create_table(
        "runs",
        sa.Column("seq", sa.Integer, primary_key=True),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("scheduled_at", sa.Integer, nullable=False),
        sa.Column("trigger", sa.Text, nullable=False),
        sa.Column("job_version", sa.Integer, nullable=False),
        sa.Column("spec_id", sa.Integer, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("fence", sa.Integer, nullable=False),
        sa.Column("slot_at", sa.Integer, nullable=False),
        sa.Column("created_at", sa.Integer, nullable=False),
        sa.Column("opened_at", sa.Integer),
        sa.Column("finished_at", sa.Integer),
        sa.Column("retry_attempt", sa.Integer),
        sa.Column("retry_at", sa.Integer),
        sa.Column("retry_of", sa.Text),
        sa.Column("skip_reason", sa.Text),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("redeliveries", sa.Integer, nullable=False),
        sa.Column("clean", sa.Integer, nullable=False),
        sa.Column("cancel_requested", sa.Integer, nullable=False),
        sa.Column("ended", sa.Integer, nullable=False),
        sa.UniqueConstraint("job_id", "scheduled_at", "trigger", name="runs_by_key"),
        sa.UniqueConstraint("id", name="runs_by_id"),
    )
    op.create_index("runs_unfinished", "runs", ["job_id", "status"], sqlite_where=sa.text("ended = 0"))
    op.create_index("runs_unfinished_by_id", "runs", ["id"], sqlite_where=sa.text("ended = 0"))
    op.create_index("runs_by_creation", "runs", ["created_at", "id"])
    op.create_index("runs_of_job", "runs", ["job_id", "created_at", "id"])
