"""Opening a state to look at it, for the commands that read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Output
from cronpad_core.cli.plugin import host_of
from cronpad_core.config.settings import load_settings
from cronpad_core.domain.errors import NotFoundError
from cronpad_core.ports.storage import Storage
from cronpad_core.runtime.clock import SystemClock
from cronpad_core.runtime.state import open_storage, state_url

__all__ = ["looking_at"]

T = TypeVar("T")


def looking_at(invocation: Invocation, out: Output, read: Callable[[Storage], Awaitable[T]]) -> T:
    """Opens the state read-only, lets ``read`` look at it, and closes it.

    Raises ``NotFoundError`` where there is no state: it is what ``--state`` or ``CRONPAD_STATE`` names, else ``.cronpad`` here.
    """
    url = state_url(invocation.state, invocation.environ, [])
    if url.startswith("memory:"):
        raise NotFoundError("a state in memory is gone with its process", hint="name a directory with --state")
    config = Path(invocation.config) if invocation.config else None
    settings = load_settings(config, invocation.environ, {})
    storage = open_storage(host_of(invocation, out).registry, url, settings, SystemClock(), read_only=True)

    async def look() -> T:
        try:
            await storage.open()
        except NotFoundError as error:
            raise NotFoundError(error.message, hint="name the state's directory with --state DIR or CRONPAD_STATE") from error
        try:
            return await read(storage)
        finally:
            await storage.close()

    return asyncio.run(look())
