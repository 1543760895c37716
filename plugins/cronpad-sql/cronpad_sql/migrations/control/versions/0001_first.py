"""Workspaces, jobs and their versions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates the first tables; ``term`` is there before any migration."""
    op.create_table(
        "workspaces",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("origin", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("next_run_at", sa.Integer),
        sa.Column("valid_from", sa.Integer, nullable=False),
        sa.Column("replay_until", sa.Integer),
        sa.Column("replay_then", sa.Integer),
        sa.Column("clock_epoch", sa.Integer, nullable=False),
        sa.Column("paused_reason", sa.Text),
        sa.Column("paused_until", sa.Integer),
    )
    op.create_index("jobs_by_name", "jobs", ["name"])
    op.create_index(
        "jobs_by_next_run",
        "jobs",
        ["next_run_at", "id"],
        sqlite_where=sa.text("status = 'active' AND next_run_at IS NOT NULL"),
    )
    op.create_table(
        "job_versions",
        sa.Column("job_id", sa.Text, primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("valid_from", sa.Integer, nullable=False),
        sa.Column("valid_until", sa.Integer),
        sa.Column("open_from", sa.Integer),
        sa.Column("owed", sa.Integer, nullable=False),
    )
    op.create_index("job_versions_owed", "job_versions", ["valid_until", "job_id"], sqlite_where=sa.text("owed = 1"))
