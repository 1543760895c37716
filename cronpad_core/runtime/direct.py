"""Working on a state that nobody runs: under the dispatcher lock, for as long as one operation takes."""

from __future__ import annotations

import asyncio
import json
import secrets  # noqa: TID251  # draws the lock's token, once for each call
from contextlib import suppress
from functools import partial
from types import TracebackType

from cronpad_core.config.settings import Settings
from cronpad_core.control.desk import Desk
from cronpad_core.domain.errors import LockHeldError, NotFoundError, StoreError
from cronpad_core.domain.timing import Millis
from cronpad_core.engine.authority import Authority
from cronpad_core.engine.dispatcher import Dispatcher
from cronpad_core.engine.patience import Patience
from cronpad_core.host.registry import Registry
from cronpad_core.ports.clock import Clock
from cronpad_core.runtime.lifecycle import tuning_of
from cronpad_core.runtime.schedules import ScheduleBook
from cronpad_core.runtime.state import identity_for, open_storage

__all__ = ["DirectState"]


class DirectState:
    """A state, opened for writing by a process that runs no jobs; used in an ``async with``.

    ``storage`` is open from the entry on, and holds the lock after :meth:`take`. No file is applied, nothing is claimed. Entering
    raises ``NotFoundError`` where there is no state (nothing is created) or it is one in memory, and what opening raises.
    ``prepared=False`` leaves a state of an older schema as it is.
    """

    def __init__(self, registry: Registry, url: str, settings: Settings, clock: Clock, *, prepared: bool = True) -> None:
        self._url = url
        self._clock = clock
        self._prepared = prepared
        self._tuning = tuning_of(settings)
        self._look_only = partial(open_storage, registry, url, settings, clock, read_only=True)
        self.storage = open_storage(registry, url, settings, clock)
        self._authority = Authority(clock)
        self._schedules = ScheduleBook()
        token = secrets.token_hex(8)
        self._identity = identity_for(self.storage, clock, token)
        self._dispatcher = Dispatcher(
            catalog=self.storage.catalog,
            history=self.storage.history,
            queue=self.storage.queue,
            clock=clock,
            liveness=self._identity,
            authority=self._authority,
            patience=Patience(clock, self._authority, lambda event: None),
            tuning=self._tuning,
            draw=partial(secrets.token_hex, 8),
            emit=lambda event: None,
        )
        self._keeper: asyncio.Task[None] | None = None

    async def __aenter__(self) -> DirectState:
        if self._url.startswith("memory:"):
            raise NotFoundError("a state in memory is gone with its process", hint="name a directory with --state")
        looking = self._look_only()
        try:
            await looking.open()
        except NotFoundError as error:
            raise NotFoundError(error.message, hint="name the state's directory with --state DIR or CRONPAD_STATE") from error
        finally:
            await looking.close()
        await self.storage.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
        await self._dispatcher.give_back()
        await self.storage.close()
        self._identity.close()

    async def take(self) -> bool:
        """One try to take the lock, which is then kept until the end; false where another process holds it.

        Brings the state to the present schema, unless it was opened with ``prepared=False``.
        """
        if not await self._dispatcher.try_take():
            return False
        self._keeper = asyncio.ensure_future(self._keep())
        if self._prepared:
            await self.storage.prepare()
        return True

    async def _keep(self) -> None:
        while await self._dispatcher.renew():
            await self._clock.sleep(self._tuning.renew_ms)
        self._dispatcher.lose("the lock could not be renewed")

    async def insist(self, wait_ms: Millis) -> None:
        """Takes the lock, trying for that long. Raises :meth:`refusal`."""
        end_ms = self._clock.boot_ms() + wait_ms
        while not await self.take():
            if self._clock.boot_ms() >= end_ms:
                raise await self.refusal()
            await self._clock.sleep(self._tuning.look_ms)

    async def refusal(self) -> LockHeldError:
        """Why the lock could not be had, and what to do."""
        holder = "another process"
        with suppress(StoreError, ValueError, TypeError, KeyError):
            record = await self.storage.catalog.read_term()
            holder = f"process {json.loads(record.holder or '')['pid']}"
        return LockHeldError(
            f"{holder} holds the state in {self.storage.directory or self._url}, and does not answer on its control socket",
            hint="is it starting, try again; does it hang, stop it; is it gone with its machine, start a runner, which takes over",
        )

    def desk(self) -> Desk:
        """The desk over the stores, under the term that is held."""
        return Desk(
            catalog=self.storage.catalog,
            history=self.storage.history,
            queue=self.storage.queue,
            schedules=self._schedules,
            clock=self._clock,
            term=lambda: self._authority.term if self._authority.trusted() else None,
            wake=lambda at_ms: None,
            tell=lambda key, stage, reason: False,
        )
