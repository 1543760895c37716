"""Run by Alembic: ``cronpad_sql.migrate`` hands in the connection and owns the transaction."""

from __future__ import annotations

from alembic import context

from cronpad_sql import schema


def run() -> None:
    """Runs the steps that Alembic chose, inside the caller's transaction."""
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=schema.control,
        transactional_ddl=False,
        render_as_batch=True,
    )
    context.run_migrations()


if hasattr(context, "config"):  # only while Alembic runs this file
    run()
