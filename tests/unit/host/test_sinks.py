"""The guard around sinks: whatever one does, an outcome comes back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from cronpad_core.api import CancelSignal, Delivered, Delivery, Failed, Outcome, SinkContext, Trigger
from cronpad_core.host import Registry, SinkPool
from cronpad_core.host.descriptors import describe

TRIGGER = Trigger.SCHEDULED
DELIVERY = dict(
    job_id="j", job_name="job", workspace="default", run_id="r", occurrence="o", trigger=TRIGGER, attempt=0, redelivery=0,
    slot_at_ms=0, scheduled_at_ms=0, timezone="UTC", fence="1.1", timeout_ms=1000, kill_grace_ms=10,
    deadline_boot_ms=1000, settings=None, still_ours=lambda: True,
)  # fmt: skip


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")
    url: str = "none"


def pool_of(deliver: Callable[..., Any], **more: Any) -> SinkPool:
    made = type(
        "Made",
        (),
        {
            "name": "made", "api": 1, "Settings": Settings, "deliver": deliver,
            "__init__": more.pop("init", lambda self, context: None), **more.pop("members", {}),
        },
    )  # fmt: skip
    registry = Registry(describe("cronpad_register_sinks", made, plugin="p", distribution="d"))
    return SinkPool(registry, environ={"A": "1"}, secret=lambda reference: f"<{reference}>", **more)


async def send(pool: SinkPool, settings: dict[str, Any] | None = None, key: object = 1) -> Outcome:
    delivery = Delivery(**DELIVERY, cancel=CancelSignal())  # type: ignore[arg-type]  # a table of fields
    return await pool.deliver("made", key, settings or {}, delivery)


async def fine(self: object, delivery: Delivery) -> Outcome:
    return Delivered(reason="fine")


async def raises_value(self: object, delivery: Delivery) -> Outcome:
    raise ValueError("bad port")


async def exits(self: object, delivery: Delivery) -> Outcome:
    raise SystemExit(3)


async def interrupts(self: object, delivery: Delivery) -> Outcome:
    raise KeyboardInterrupt


async def cancels_itself(self: object, delivery: Delivery) -> Outcome:
    raise asyncio.CancelledError


async def says_nothing(self: object, delivery: Delivery) -> None:
    return None


def plain_exits(self: object, delivery: Delivery) -> Outcome:
    raise SystemExit(4)


def plain_stops(self: object, delivery: Delivery) -> Outcome:
    raise StopIteration


@pytest.mark.parametrize(
    ("deliver", "said", "retryable"),
    [
        (raises_value, "ValueError: bad port", True),
        (exits, "SystemExit: 3", True),
        (interrupts, "KeyboardInterrupt", True),
        (cancels_itself, "cancelled itself", True),
        (says_nothing, "deliver answered NoneType, which is no outcome", False),
        (plain_exits, "SystemExit: 4", True),
        (plain_stops, "StopIteration", True),
    ],
)
def test_whatever_a_sink_raises_is_a_failed_attempt(deliver: Any, said: str, retryable: bool) -> None:
    """Type and message are the reason; nobody can say that it was not delivered."""

    async def check() -> None:
        pool = pool_of(deliver)
        outcome = await send(pool)
        assert isinstance(outcome, Failed)
        assert said in outcome.reason
        assert outcome.facts["error"] == "plugin_error"
        assert (outcome.retryable, outcome.undelivered) == (retryable, False)
        assert pool.plugin_errors == {"made": 1}

    asyncio.run(check())


def test_the_traceback_is_kept_short_and_redacted() -> None:
    """Its last 4 KB, with what ``redact`` leaves of it."""

    async def deep(self: object, delivery: Delivery) -> Outcome:
        raise ValueError("hunter2 " * 2000)

    async def check() -> None:
        outcome = await send(pool_of(deep, redact=lambda text: text.replace("hunter2", "***")))
        assert isinstance(outcome, Failed)
        text = outcome.facts["traceback"]
        assert isinstance(text, str)
        assert len(text) <= 4096
        assert "***" in text
        assert "hunter2" not in text + outcome.reason

    asyncio.run(check())


def test_a_cancellation_from_outside_goes_through() -> None:
    """Shutdown and the worker's deadline can end a delivery."""

    async def hangs(self: object, delivery: Delivery) -> Outcome:
        await asyncio.Event().wait()
        return Delivered()

    async def check() -> None:
        task = asyncio.ensure_future(send(pool_of(hangs)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(check())


def test_one_object_serves_all_and_settings_are_validated_once_per_key() -> None:
    """It is built on first use with its context; a key's settings are the same object each time."""
    built: list[SinkContext] = []
    seen: list[object] = []

    async def deliver(self: object, delivery: Delivery) -> Outcome:
        seen.append(delivery.settings)
        return Delivered()

    async def check() -> None:
        pool = pool_of(deliver, init=lambda self, context: built.append(context), plugin_settings={"made": {"host": "x"}})
        assert pool.available("made")
        assert not pool.available("other")
        assert built == []
        for key in (("job", 1), ("job", 1), ("job", 2)):
            assert isinstance(await send(pool, {"url": "u"}, key), Delivered)
        assert len(built) == 1
        assert built[0].settings == {"host": "x"}
        assert (built[0].environ, built[0].secret("s")) == ({"A": "1"}, "<s>")
        assert seen[0] is seen[1]
        assert seen[0] is not seen[2]
        assert seen[0] == Settings(url="u")

    asyncio.run(check())


def test_what_never_reached_the_sink_is_known_to_be_undelivered() -> None:
    """No such sink, refused settings (their values are not told), a sink that cannot be built and is tried again."""
    tries: list[int] = []

    def init(self: object, context: SinkContext) -> None:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("no room")

    async def check() -> None:
        pool = pool_of(fine, init=init)
        unknown = await pool.deliver("other", 1, {}, Delivery(**DELIVERY, cancel=CancelSignal()))  # type: ignore[arg-type]  # as above
        assert isinstance(unknown, Failed)
        assert (unknown.facts["error"], unknown.retryable, unknown.undelivered) == ("plugin_unavailable", False, True)
        unbuilt = await send(pool)
        assert isinstance(unbuilt, Failed)
        assert (unbuilt.facts["error"], unbuilt.retryable, unbuilt.undelivered) == ("plugin_error", True, True)
        refused = await send(pool, {"url": ["s3cret"], "extra": "s3cret"})
        assert isinstance(refused, Failed)
        assert (refused.facts["error"], refused.retryable, refused.undelivered) == ("settings_refused", False, True)
        assert "url: " in refused.reason
        assert "extra: " in refused.reason
        assert "s3cret" not in refused.reason
        assert isinstance(await send(pool), Delivered)

    asyncio.run(check())


def test_a_plain_deliver_runs_in_a_thread_of_a_bounded_number() -> None:
    """The loop goes on meanwhile; no more than ``threads`` run at once."""
    running: list[int] = []
    most: list[int] = []
    release = threading.Event()
    lock = threading.Lock()

    def deliver(self: object, delivery: Delivery) -> Outcome:
        with lock:
            running.append(1)
            most.append(len(running))
        release.wait(10)
        with lock:
            running.pop()
        assert threading.current_thread() is not threading.main_thread()
        return Delivered()

    async def check() -> None:
        pool = pool_of(deliver, threads=2)
        tasks = [asyncio.ensure_future(send(pool)) for _ in range(5)]
        while len(running) < 2:
            await asyncio.sleep(0.001)
        release.set()
        assert all(isinstance(one, Delivered) for one in await asyncio.gather(*tasks))
        assert max(most) <= 2
        assert pool.leaked_threads == 0

    asyncio.run(check())


def test_a_hung_thread_is_counted_and_gives_its_place_back() -> None:
    """Cancelling frees the caller at once; the leak is over when the thread is."""
    release = threading.Event()
    hang = [True]

    def deliver(self: object, delivery: Delivery) -> Outcome:
        if hang[0]:
            release.wait(10)
        return Delivered()

    async def check() -> None:
        pool = pool_of(deliver, threads=1)
        task = asyncio.ensure_future(send(pool))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert pool.leaked_threads == 1
        hang[0] = False
        assert isinstance(await send(pool), Delivered)
        release.set()
        while pool.leaked_threads:
            await asyncio.sleep(0.001)

    asyncio.run(check())


def test_a_plain_function_may_answer_a_coroutine() -> None:
    """As a decorator that is not ``async`` does."""

    def deliver(self: object, delivery: Delivery) -> Any:
        return fine(self, delivery)

    assert isinstance(asyncio.run(send(pool_of(deliver))), Delivered)


def test_closing_reaches_every_sink_that_was_built_whatever_one_raises() -> None:
    """A sink without ``close`` is fine too."""
    closed: list[str] = []

    async def close(self: object) -> None:
        closed.append("closed")
        raise SystemExit

    async def check() -> None:
        pool = pool_of(fine, members={"close": close})
        await pool.close()
        assert closed == []
        await send(pool)
        await pool.close()
        await pool.close()
        assert closed == ["closed"]
        plain = pool_of(fine)
        await send(plain)
        await plain.close()

    asyncio.run(check())


@pytest.mark.parametrize("url", ["raise", "answer"])
def test_secrets_that_a_sink_resolved_are_masked(url: str) -> None:
    """Whatever it answers or raises, traceback included, a secret from its context is not in what is kept."""
    secret = "<secret:env:TOKEN>"

    def build(self: Any, context: SinkContext) -> None:
        self.token = context.secret("secret:env:TOKEN")

    async def leaks(self: Any, delivery: Delivery) -> Outcome:
        assert self.token == secret
        if url == "raise":
            raise RuntimeError(f"no entry for {self.token}")
        return Delivered(reason=f"took {self.token}", facts={"header": f"Bearer {self.token}", "size": 3})

    outcome = asyncio.run(send(pool_of(leaks, init=build), {"url": url}))
    assert secret not in repr(outcome)
    assert "***" in outcome.reason
    assert outcome.facts.get("header", "Bearer ***") == "Bearer ***"
    assert outcome.facts.get("distribution", "d") == "d"
