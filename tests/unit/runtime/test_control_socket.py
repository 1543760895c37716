"""The socket and its client against each other, over a state in memory."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from cronpad_core.builtin.memory import MemoryStorage
from cronpad_core.control.apply import Declared, apply
from cronpad_core.control.desk import Desk
from cronpad_core.domain.dispatch import LockRow, TermRecord
from cronpad_core.domain.errors import ConfigurationError, CronpadError, NotFoundError, NotRunningError, TermRefusedError
from cronpad_core.domain.events import DispatcherChanged, RunEnded
from cronpad_core.domain.job import JobSpec, ScheduleSpec, SinkSpec
from cronpad_core.domain.occurrence import Occurrence
from cronpad_core.domain.run import Run, RunStatus
from cronpad_core.ports.history import EndRequest
from cronpad_core.ports.storage import StorageOptions
from cronpad_core.runtime.clock import SystemClock
from cronpad_core.runtime.control_client import ControlClient
from cronpad_core.runtime.control_socket import ControlSocket
from cronpad_core.runtime.schedules import ScheduleBook

TERM = 7


class Place:
    """A desk over memory with one job, and a socket on it."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "control.sock"
        self.directory = directory
        self.clock = SystemClock()
        self.storage = MemoryStorage(StorageOptions(url="memory://", wall_ms=self.clock.wall_ms))
        self.term: int | None = TERM
        self.notes: list[str] = []
        self.desk = Desk(
            catalog=self.storage.catalog,
            history=self.storage.history,
            queue=self.storage.queue,
            schedules=ScheduleBook(),
            clock=self.clock,
            term=lambda: self.term,
            wake=lambda at_ms: None,
            tell=lambda key, stage, reason: False,
        )
        self.release = asyncio.Event()
        self.begun = asyncio.Event()

    def socket(self, **more: Any) -> ControlSocket:
        """A socket that is not open yet, with operations of its own."""
        own = {"slow": self._slow, "odd": self._odd, "refuse": self._refuse}
        return ControlSocket(self.directory, self.desk, operations=own, note=self.notes.append, **more)

    async def _slow(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        self.begun.set()
        await self.release.wait()
        return {"done": True}

    async def _odd(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if arguments:
            raise KeyError("a mistake of ours")
        return {"no": float("nan")}

    async def _refuse(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        raise ConfigurationError("1 problem", report="jobs.json:3: no")

    async def fill(self) -> None:
        """Takes the term, and stores the job."""
        for store in (self.storage.catalog, self.storage.history):
            assert await store.swap_term(TermRecord(), TermRecord(term=TERM, holder="us"))
        await self.storage.queue.open()
        row, seen = LockRow(token="us", term=TERM, expires_ms=2**60), await self.storage.queue.look()
        assert await self.storage.queue.acquire(row, seen=seen, boot_id="b", boot_base_ms=0, epoch="e", guard=lambda: True)
        spec = JobSpec(name="job", schedule=ScheduleSpec(texts=("0 0 1 1 *",), timezone="UTC"), sink=SinkSpec(type="command"))
        await apply(
            [Declared(spec=spec, origin="file")],
            origins=["file"],
            prune=False,
            catalog=self.storage.catalog,
            history=self.storage.history,
            schedules=ScheduleBook(),
            now=self.clock.wall_ms,
            term=TERM,
        )

    async def end(self, run_id: str) -> Run:
        """Ends a run as cancelled, and answers it."""
        run = await self.storage.history.run_by_id(run_id)
        assert run is not None
        ended = await self.storage.history.end(
            EndRequest(
                key=run.key,
                was=run.status,
                attempt=run.attempt,
                fence=run.fence,
                status=RunStatus.CANCELLED,
                reason="test",
                now_ms=self.clock.wall_ms(),
            )
        )
        assert ended
        return run

    @asynccontextmanager
    async def open(self, **more: Any) -> AsyncIterator[ControlSocket]:
        """The socket, open and with a job behind it."""
        await self.fill()
        control = self.socket(**more)
        await control.open()
        try:
            yield control
        finally:
            await control.close()

    async def client(self) -> ControlClient:
        """A new connection."""
        return await ControlClient.connect(self.path)


def over(directory: Path, test: Callable[[Place], Coroutine[Any, Any, None]]) -> None:
    """Runs a test on a loop of its own, where no task may be left and nothing may have gone wrong unseen."""

    async def run() -> None:
        faults: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context))
        await asyncio.wait_for(test(Place(directory)), 30)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert faults == []

    asyncio.run(run())


async def _line(path: Path, data: bytes) -> bytes:
    """Writes bytes and says no more; everything that is answered."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    with suppress(OSError):
        writer.write(data)
        writer.write_eof()
    found = await reader.read()
    writer.close()
    return found


def test_questions_and_answers(tmp_path: Path) -> None:
    """One connection asks one thing after the other; each answer has the id of its question, errors come as their class."""

    async def test(place: Place) -> None:
        async with place.open(), await place.client() as client:
            assert (await client.ask("ping", {}))["term"] == TERM
            run = await client.ask("trigger", {"job": "job", "payload": {"x": 1}})
            stored = await place.storage.history.run_by_id(str(run["run_id"]))
            assert stored is not None and stored.payload == {"x": 1}
            with pytest.raises(NotFoundError, match='no job "nobody"'):
                await client.ask("trigger", {"job": "nobody"})
            with pytest.raises(ConfigurationError) as refused:
                await client.ask("refuse", {})
            assert refused.value.report == "jobs.json:3: no"
            for arguments in ({}, {"raise": True}):
                with pytest.raises(CronpadError):
                    await client.ask("odd", arguments)
            assert len(place.notes) == 2
            assert await client.ask("ping", {})
        raw = b'{"id": "a", "op": "ping"}\nno\n{"id": [2], "op": "ping"}'
        async with await _opened(place.socket()):
            answers = [json.loads(line) for line in (await _line(place.path, raw)).splitlines()]
        assert [(one["id"], one["ok"]) for one in answers] == [("a", True), (None, False), ([2], True)]

    over(tmp_path, test)


def test_a_standby_refuses(tmp_path: Path) -> None:
    """Without a term nothing is changed, and the answer says that another process is to be asked."""

    async def test(place: Place) -> None:
        async with place.open(), await place.client() as client:
            place.term = None
            with pytest.raises(TermRefusedError):
                await client.ask("trigger", {"job": "job"})
        assert await place.storage.history.runs() == []

    over(tmp_path, test)


def test_wait_answers_at_the_end_or_at_its_time(tmp_path: Path) -> None:
    """The end comes when the engine tells of it; a time-out answers the run as it stands; an unknown run is not found."""

    async def test(place: Place) -> None:
        async with place.open() as control, await place.client() as client, await place.client() as other:
            run_id = str((await client.ask("trigger", {"job": "job"}))["run_id"])
            early = await client.ask("wait", {"run_id": run_id, "timeout_ms": 0})
            assert (early["ended"], early["status"]) == (False, "pending")
            with pytest.raises(NotFoundError):
                await client.ask("wait", {"run_id": "run_none"})
            for wrong in ({}, {"run_id": 1}, {"run_id": run_id, "timeout_ms": -1}, {"run_id": run_id, "timeout_ms": True}):
                with pytest.raises(ConfigurationError):
                    await client.ask("wait", wrong)
            waiting = [asyncio.ensure_future(one.ask("wait", {"run_id": run_id})) for one in (client, other)]
            run = await place.end(run_id)
            occurrence = Occurrence(
                job_id=run.key.job_id,
                scheduled_at_ms=run.key.scheduled_at_ms,
                attempt=0,
                job_version=1,
                trigger=run.key.trigger,
            )
            control.heard(
                RunEnded(occurrence=occurrence, job_name="job", run_id=run_id, status=RunStatus.CANCELLED, reason="test")
            )
            for answer in await asyncio.gather(*waiting):
                assert (answer["ended"], answer["status"], answer["exit_code"]) == (True, "cancelled", None)

    over(tmp_path, test)


def test_an_end_that_nobody_tells_of_is_found(tmp_path: Path) -> None:
    """A run that ends without an event is noticed too."""

    async def test(place: Place) -> None:
        async with place.open(), await place.client() as client:
            run_id = str((await client.ask("trigger", {"job": "job"}))["run_id"])
            waiting = asyncio.ensure_future(client.ask("wait", {"run_id": run_id}))
            await place.end(run_id)
            assert (await waiting)["ended"] is True

    over(tmp_path, test)


def test_closing_lets_work_end_and_waiting_go(tmp_path: Path) -> None:
    """What is being done is answered, whoever waits for a run is told that nobody runs it, idle clients are let go."""

    async def test(place: Place) -> None:
        async with place.open() as control:
            worker, waiter, idle = [await place.client() for _ in range(3)]
            run_id = str((await idle.ask("trigger", {"job": "job"}))["run_id"])
            working = asyncio.ensure_future(worker.ask("slow", {}))
            waiting = asyncio.ensure_future(waiter.ask("wait", {"run_id": run_id}))
            await place.begun.wait()
            closing = asyncio.ensure_future(control.close())
            with pytest.raises(NotRunningError, match="stops"):
                await waiting
            place.release.set()
            await closing
            assert await working == {"done": True}
            with pytest.raises(NotRunningError, match="not known"):
                await idle.ask("ping", {})
            with pytest.raises(NotRunningError, match="nobody listens"):
                await place.client()
            for one in (worker, waiter, idle):
                await one.close()
        assert list(tmp_path.iterdir()) == []

    over(tmp_path, test)


def test_a_client_that_goes_while_it_waits_leaves_its_place(tmp_path: Path) -> None:
    """With room for one client, the next is let in soon after the one that waited has vanished."""

    async def test(place: Place) -> None:
        async with place.open(most=1):
            first = await place.client()
            run_id = str((await first.ask("trigger", {"job": "job"}))["run_id"])
            waiting = asyncio.ensure_future(first.ask("wait", {"run_id": run_id}))
            async with await place.client() as second:
                with pytest.raises(NotRunningError, match="1 clients already"):
                    await second.ask("ping", {})
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await first.close()
            while True:
                async with await place.client() as third:
                    with suppress(NotRunningError):
                        assert await third.ask("ping", {})
                        break

    over(tmp_path, test)


def test_silence_and_long_lines_end_a_connection(tmp_path: Path) -> None:
    """A client that sends nothing is sent away, one whose line is too long is told so first; nobody else notices."""

    async def test(place: Place) -> None:
        async with place.open(idle_ms=200):
            reader, writer = await asyncio.open_unix_connection(str(place.path))
            writer.write(b'{"op": "pi')
            assert await reader.read() == b""
            writer.close()
            async with await place.client() as client:
                with pytest.raises(ConfigurationError, match="1,048,576 bytes"):
                    await client.ask("trigger", {"job": "job", "payload": "x" * 3_000_000})
            async with await place.client() as client:
                assert await client.ask("ping", {})
        assert place.notes == []

    over(tmp_path, test)


def test_the_socket_takes_its_place(tmp_path: Path) -> None:
    """What a dead process left, or a file, gives way; on closing only one's own is removed; without a term nothing is touched."""

    async def test(place: Place) -> None:
        await place.fill()
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(place.path))
        with pytest.raises(NotRunningError):
            await place.client()
        first, second = place.socket(), place.socket()
        place.term = None
        await first.open()
        with pytest.raises(NotRunningError):
            await place.client()
        place.term = TERM
        await first.open()
        async with await place.client() as client:
            assert await client.ask("ping", {})
            await second.open()
            assert await client.ask("ping", {})
            await first.close()
        async with await place.client() as client:
            assert await client.ask("ping", {})
            place.path.unlink()
            await second.open()
            assert await client.ask("ping", {})
        async with await place.client() as client:
            assert await client.ask("ping", {})
        await second.close()
        place.path.write_text("a file")
        async with await _opened(place.socket()):
            assert place.path.is_socket()
        place.path.mkdir()
        stuck = place.socket()
        await stuck.open()
        await stuck.open()
        assert len(place.notes) == 1
        assert place.path.is_dir()
        assert [one.name for one in tmp_path.iterdir()] == ["control.sock"]

    over(tmp_path, test)


def test_it_follows_the_dispatcher(tmp_path: Path) -> None:
    """Open while this process dispatches, closed when it does not, and closed when whoever follows is cancelled."""

    async def test(place: Place) -> None:
        await place.fill()
        control, active = place.socket(), asyncio.Event()
        following = asyncio.ensure_future(control.follow(active))

        async def becomes(there: bool) -> None:
            control.heard(DispatcherChanged(state="active" if there else "standby", term=TERM))
            while place.path.exists() is not there:
                await asyncio.sleep(0)

        active.set()
        await becomes(True)
        active.clear()
        await becomes(False)
        active.set()
        await becomes(True)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        assert not place.path.exists()

    over(tmp_path, test)


@asynccontextmanager
async def _closing(control: ControlSocket) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await control.close()


async def _opened(control: ControlSocket) -> Any:
    await control.open()
    return _closing(control)
