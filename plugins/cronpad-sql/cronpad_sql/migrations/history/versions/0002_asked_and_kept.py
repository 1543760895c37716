"""What people asked for, what limits count by, and how far back history reaches."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Widens ``runs`` and fills it from the settings of each run; adds the tables of the ledger, of usage and of backfills."""
    op.add_column("runs", sa.Column("workspace", sa.Text, nullable=False, server_default="default"))
    for name in ("scope_key", "payload", "token"):
        op.add_column("runs", sa.Column(name, sa.Text))
    _fill_runs()
    op.drop_index("runs_unfinished", "runs")
    op.drop_index("runs_of_job", "runs")
    columns = ["status", "job_id", "workspace", "scope_key", "ended"]
    op.create_index("runs_unfinished", "runs", columns, sqlite_where=sa.text("ended = 0"))
    op.create_index("runs_of_job", "runs", ["job_id", "created_at", "id", "spec_id"])
    op.create_index("runs_by_token", "runs", ["job_id", "token"], unique=True, sqlite_where=sa.text("token IS NOT NULL"))
    op.create_index("ranges_by_end", "ranges", ["last_at"])
    op.create_table(
        "ledger",
        sa.Column("job_id", sa.Text, primary_key=True),
        sa.Column("from_at", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "usage",
        sa.Column("workspace", sa.Text, primary_key=True),
        sa.Column("month", sa.Text, primary_key=True),
        sa.Column("runs", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
    _create_backfills()


def _fill_runs() -> None:
    """Only rows that are not as ``ADD COLUMN`` left them are written: history may be large."""
    op.execute(
        "UPDATE runs SET workspace = s.workspace, scope_key = s.scope_key FROM (SELECT id, "
        "coalesce(json_extract(spec, '$.workspace'), 'default') AS workspace, "
        "json_extract(spec, '$.concurrency.key') AS scope_key FROM specs WHERE json_valid(spec)) s "
        "WHERE s.id = runs.spec_id AND (s.workspace <> 'default' OR s.scope_key IS NOT NULL)"
    )


def _create_backfills() -> None:
    op.create_table(
        "backfills",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("job_version", sa.Integer, nullable=False),
        sa.Column("from_at", sa.Integer, nullable=False),
        sa.Column("to_at", sa.Integer, nullable=False),
        sa.Column("cursor_at", sa.Integer, nullable=False),
        sa.Column("created_at", sa.Integer, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("overlap_policy", sa.Text),
        sa.Column("overlap_max", sa.Integer),
        sa.Column("started", sa.Integer, nullable=False),
        sa.Column("passed", sa.Integer, nullable=False),
        sa.Column("finished_at", sa.Integer),
        sqlite_with_rowid=False,
    )
    op.create_index("backfills_by_creation", "backfills", ["created_at", "id"])
    op.create_index("backfills_of_job", "backfills", ["job_id", "created_at", "id"])
    op.create_index("backfills_open", "backfills", ["created_at", "id"], sqlite_where=sa.text("status = 'open'"))
