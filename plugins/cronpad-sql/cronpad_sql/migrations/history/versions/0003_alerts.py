"""What alerts know of each job, how each alert fares, and the outbox in which they wait to be sent."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the three tables."""
    op.create_table(
        "alert_states",
        sa.Column("job_id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("open", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "alert_channels",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("snoozed_until", sa.Integer, nullable=False),
        sa.Column("window_from", sa.Integer, nullable=False),
        sa.Column("window_count", sa.Integer, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("rest_until", sa.Integer, nullable=False),
        sa.Column("failing_told", sa.Integer, nullable=False),
        sa.Column("dropped", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "outbox",
        sa.Column("seq", sa.Integer, primary_key=True),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("lane", sa.Text, nullable=False),
        sa.Column("kind", sa.Text),
        sa.Column("items", sa.Text, nullable=False),
        sa.Column("created_at", sa.Integer, nullable=False),
        sa.Column("next_at", sa.Integer, nullable=False),
        sa.Column("give_up_at", sa.Integer, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("gathering", sa.Integer, nullable=False),
        sa.Column("left_out", sa.Integer, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("settled_at", sa.Integer),
        sa.Column("taken_term", sa.Integer),
        sa.UniqueConstraint("id", name="outbox_by_id"),
    )
    op.create_index("outbox_waiting", "outbox", ["name", "lane", "seq"], sqlite_where=sa.text("status = 'pending'"))
    op.create_index("outbox_gathering", "outbox", ["name"], sqlite_where=sa.text("status = 'pending' AND gathering = 1"))
    op.create_index("outbox_settled", "outbox", ["settled_at"], sqlite_where=sa.text("status <> 'pending'"))
