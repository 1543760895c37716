"""Workspaces with limits, by name."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes ``workspaces`` anew; the names that were there keep no limits."""
    op.rename_table("workspaces", "workspaces_0001")
    op.create_table(
        "workspaces",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("suspended", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("quota", sa.Integer),
        sa.Column("quota_blocking", sa.Integer, nullable=False),
        sa.Column("concurrency", sa.Integer),
        sqlite_with_rowid=False,
    )
    op.execute("INSERT INTO workspaces SELECT DISTINCT name, 0, '', NULL, 1, NULL FROM workspaces_0001")
    op.drop_table("workspaces_0001")
