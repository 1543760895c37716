"""Looking after a state that nobody runs: pruning, upgrading, restoring, and letting the queue be made anew.

Each of these is done under the dispatcher lock, which a start that comes meanwhile waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cronpad_core.config.settings import Settings
from cronpad_core.domain.errors import ConfigurationError, LockHeldError, NotFoundError
from cronpad_core.engine.retention import Keep
from cronpad_core.host.registry import Registry
from cronpad_core.ports.clock import Clock
from cronpad_core.ports.keeping import Pruned
from cronpad_core.ports.storage import FileFacts, Restored, Storage, StorageTools
from cronpad_core.runtime.direct import DirectState
from cronpad_core.runtime.health import read_pulse
from cronpad_core.runtime.state import open_storage

__all__ = ["Caretaker", "Upgraded", "tools_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgraded:
    """One file of an upgrade: its schema before and after, the same where there was nothing to do; ``copies`` were taken."""

    name: str
    before: int
    after: int
    copies: tuple[Path, ...]


def tools_of(storage: Storage) -> StorageTools:
    """What looks after the storage's files. Raises ``ConfigurationError`` where it has none to be looked after."""
    tools: StorageTools | None = getattr(storage, "tools", None)  # a storage plugin may be older than these tools
    if tools is None:
        raise ConfigurationError("this kind of state has no files to look after", hint="name a directory with --state")
    return tools


def _require_some(facts: Sequence[FileFacts], storage: Storage) -> None:
    """Opening for writing would make a state where there is none."""
    if not any(one.size or one.found is not None for one in facts):
        raise NotFoundError(
            f"there is no state in {storage.directory}", hint="name its directory with --state DIR or CRONPAD_STATE"
        )


class _Held(DirectState):
    """A state of any schema that we can bring up to date, entered only where its files are there."""

    async def __aenter__(self) -> _Held:
        _require_some(await tools_of(self.storage).facts(), self.storage)
        await self.storage.open()
        return self

    @property
    def term(self) -> int:
        """The term that we hold. Raises ``LockHeldError`` once it is lost."""
        term = self._authority.term
        if term is None or not self._authority.trusted():
            raise LockHeldError("the lock was lost to another process; what was done so far is kept")
        return term


class Caretaker:
    """Does one thing to one state. Every call raises ``LockHeldError`` while somebody dispatches, and what opening raises.

    ``say`` is told where it takes longer because it is not certain at once that nobody dispatches.
    """

    def __init__(self, registry: Registry, url: str, settings: Settings, clock: Clock, *, say: Callable[[str], None]) -> None:
        self._registry = registry
        self._url = url
        self._settings = settings
        self._clock = clock
        self._say = say

    def _state(self) -> _Held:
        return _Held(self._registry, self._url, self._settings, self._clock, prepared=False)

    async def _take(self, state: _Held) -> None:
        directory = state.storage.directory
        pulse = None if directory is None else read_pulse(directory)
        if pulse is not None and not pulse.problems(self._clock):
            raise LockHeldError(
                f"process {pulse.pid} dispatches on {directory}", hint="stop it first, and its standbys; then call this again"
            )
        if await state.take():
            return
        ttl_ms = self._settings.scheduler_lock_ttl_ms
        self._say(f"somebody else may dispatch here: watching the lock for up to {2 * ttl_ms / 1000:.0f} s")
        # Twice the time of the lock, and the looks on both sides of it, is what a holder that cannot be seen takes to be shut out.
        await state.insist(2 * ttl_ms + ttl_ms // 2 + 3_000)

    async def prune(self, keep: Keep) -> Pruned:
        """Removes everything that goes by ``keep``, batch by batch; answers how much went."""
        runs = ranges = 0
        async with self._state() as state:
            await self._take(state)
            await state.storage.prepare()
            more = not keep.everything
            while more:
                request = keep.request(self._clock.wall_ms(), limit=500)
                pruned = await state.storage.history.prune(request, term=state.term)
                runs, ranges, more = runs + pruned.runs, ranges + pruned.ranges, pruned.more
        return Pruned(runs=runs, ranges=ranges, more=False)

    async def upgrade(self) -> list[Upgraded]:
        """Brings control and history to the present schema, older ones after a copy beside them."""
        before = await self._facts()
        if all(one.found == one.known for one in before):
            return [Upgraded(name=one.name, before=one.known, after=one.known, copies=()) for one in before]
        there = {path for one in before for path in one.path.parent.iterdir()}
        async with self._state() as state:
            await self._take(state)
            await state.storage.prepare()
        copies = {path for one in before for path in one.path.parent.iterdir()} - there
        return [
            Upgraded(
                name=one.name,
                before=one.found or 0,
                after=one.known,
                copies=tuple(sorted(path for path in copies if path.name.startswith(f"{one.path.name}.v"))),
            )
            for one in before
        ]

    async def _facts(self) -> list[FileFacts]:
        """Of the files that are upgraded: a queue is not, it is made anew."""
        storage = open_storage(self._registry, self._url, self._settings, self._clock)
        facts = [one for one in await tools_of(storage).facts() if one.name != "queue"]
        _require_some(facts, storage)
        return facts

    async def rebuild_queue(self) -> Path | None:
        """Sets the queue aside, so that the next start fills a new one; answers where it is now."""
        async with self._state() as state:
            await self._take(state)
            await state.storage.queue.close()
            return await tools_of(state.storage).set_queue_aside()

    async def restore(self, source: Path, *, aside: bool) -> Restored:
        """Puts a backup in place. The ledger of every job begins now: what was between the backup and now is not known."""
        storage = open_storage(self._registry, self._url, self._settings, self._clock)
        directory = storage.directory
        pulse = None if directory is None else read_pulse(directory)
        if pulse is not None and not pulse.problems(self._clock):
            raise LockHeldError(f"process {pulse.pid} dispatches on {directory}", hint="stop it first, and its standbys")
        settings = replace(self._settings, queue_path=None)

        async def begin(url: str) -> None:
            async with _Held(self._registry, url, settings, self._clock, prepared=False) as state:
                if not await state.take():
                    raise LockHeldError("the copies could not be taken; this is a fault of cronpad")
                await state.storage.prepare()
                await state.storage.history.begin_ledger(self._clock.wall_ms(), term=state.term)

        return await tools_of(storage).restore(source, aside=aside, begin=begin)
