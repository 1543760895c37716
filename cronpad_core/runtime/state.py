"""Where state lives: from what the user wrote to a storage and to the evidence of this process's life."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cronpad_core.config.settings import Settings
from cronpad_core.host.registry import Registry
from cronpad_core.ports.clock import Clock
from cronpad_core.ports.storage import Storage, StorageOptions
from cronpad_core.runtime.identity import EphemeralIdentity, ProcessIdentity

__all__ = ["MEMORY", "identity_for", "open_storage", "state_url"]

MEMORY = ":memory:"


def state_url(state: str | None, environ: Mapping[str, str], files: list[Path]) -> str:
    """The URL of the state: what was given, else ``CRONPAD_STATE``, else ``.cronpad/`` beside the first file, or here.

    A text without a scheme is a directory, kept in SQLite; ``:memory:`` keeps none.
    """
    given = state or environ.get("CRONPAD_STATE") or ""
    if given == MEMORY:
        return "memory://"
    if "://" in given:
        return given
    if given:
        directory = Path(given)
    else:
        first = files[0] if files else Path()
        directory = (first if first.is_dir() else first.parent) / ".cronpad"
    return f"sqlite://{directory.absolute()}"


def open_storage(registry: Registry, url: str, settings: Settings, clock: Clock, *, read_only: bool = False) -> Storage:
    """Builds the storage of that URL without touching anything. Raises ``PluginError`` where its plugin is missing."""
    build = registry.storage(url.partition("://")[0])
    return build(
        StorageOptions(
            url=url,
            wall_ms=clock.wall_ms,
            durable=settings.delivery == "durable",
            queue_path=Path(settings.queue_path) if settings.queue_path else None,
            batch_limit=settings.results_max_batch,
            read_only=read_only,
        )
    )


def identity_for(storage: Storage, clock: Clock, token: str) -> ProcessIdentity | EphemeralIdentity:
    """How this process is named over that state."""
    if storage.directory is None:
        return EphemeralIdentity(token)
    return ProcessIdentity(storage.directory, clock, token)
