"""Calling emitters: on threads of their own, with secrets that are resolved late and never shown."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, ConfigDict

from cronpad_core.domain.alerts import AlertRule, AlertSpec
from cronpad_core.domain.errors import ConfigurationError
from cronpad_core.engine.alerts import send_within
from cronpad_core.host.booth import Booth
from cronpad_core.host.descriptors import describe
from cronpad_core.host.emitters import EmitterPool, UnsentError
from cronpad_core.host.redaction import redacted
from cronpad_core.host.registry import Registry
from cronpad_core.ports.alerts import Alert
from cronpad_testkit.suites.emitter import alert

SECRET = "https://user:pass-word@hooks.example.com/services/T0KEN-123456?key=abcdef99"


class Settings(BaseModel):
    """Any."""

    model_config = ConfigDict(extra="forbid")

    url: str = ""
    count: int = 0
    deep: list[dict[str, str]] = []


Doing = Callable[[Settings, Alert], Any]


def pool_of(doing: Doing, *, secret: Callable[[str], str] = lambda reference: SECRET, **settings: Any) -> EmitterPool:
    """A pool with one alert, whose emitter does this."""

    class Emitter:
        """Does what it is told."""

        name: ClassVar[str] = "any"
        api: ClassVar[int] = 1
        Settings = Settings

        def __init__(self, settings: Settings) -> None:
            self.settings = settings

        async def emit(self, alert: Alert) -> None:
            answer = doing(self.settings, alert)
            if answer is not None:
                await answer

    [found] = describe("cronpad_register_alert_emitters", Emitter, plugin="p", distribution="d")
    pool = EmitterPool(Registry([found]), secret=secret)
    pool.replace({"on-call": AlertSpec(rule=AlertRule(name="on-call"), type="any", settings=settings)})
    return pool


def emit(pool: EmitterPool, *, times: int = 1, name: str = "on-call") -> None:
    """Sends, and closes the pool."""

    async def main() -> None:
        try:
            for _ in range(times):
                await pool.emit(name, alert())
        finally:
            pool.close()

    asyncio.run(main())


def error_of(pool: EmitterPool, name: str = "on-call") -> str:
    """What it says when it cannot send."""
    with pytest.raises(UnsentError) as caught:
        emit(pool, name=name)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return str(caught.value)


def test_calls_run_on_one_thread_that_is_not_ours() -> None:
    """All calls of an alert are made on one thread of its own."""
    threads: list[threading.Thread] = []
    emit(pool_of(lambda settings, told: threads.append(threading.current_thread())), times=3)
    assert len(set(threads)) == 1
    assert threads[0] is not threading.main_thread()
    assert threads[0].daemon


def test_secrets_are_resolved_at_each_call() -> None:
    """References are resolved wherever they stand, and a changed secret is used from the next call on."""
    given = iter(["first", "first", "second", "second"])
    seen: list[tuple[str, str]] = []

    def keep(settings: Settings, told: Alert) -> None:
        seen.append((settings.url, settings.deep[0]["token"]))

    pool = pool_of(keep, secret=lambda reference: next(given), url="secret:env:A", deep=[{"token": "secret:env:B"}])
    emit(pool, times=2)
    assert seen == [("first", "first"), ("second", "second")]


def _raise(error: BaseException) -> Doing:
    def doing(settings: Settings, told: Alert) -> None:
        raise error

    return doing


@pytest.mark.parametrize("error", [OSError("no route"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError()])
def test_whatever_is_raised_is_an_error(error: BaseException) -> None:
    """SystemExit and its like end nothing: they are the text of an error."""
    assert error_of(pool_of(_raise(error))).startswith(type(error).__name__)


@pytest.mark.parametrize(
    "said",
    [
        SECRET,
        "404 for /services/T0KEN-123456",
        "user and pass-word were refused",
        "GET ?key=abcdef99",
        "https%3A%2F%2Fuser%3Apass-word%40hooks.example.com%2Fservices%2FT0KEN-123456%3Fkey%3Dabcdef99",
    ],
)
def test_a_secret_is_masked_in_what_an_emitter_says(said: str) -> None:
    """Whole, encoded, or the parts of an address."""

    def doing(settings: Settings, told: Alert) -> None:
        try:
            raise ValueError(settings.url)
        except ValueError as error:
            raise RuntimeError(said) from error

    text = error_of(pool_of(doing, url="secret:env:A"))
    assert "***" in text
    assert not [part for part in ("T0KEN", "pass-word", "abcdef99") if part in text]


def test_refused_settings_do_not_show_their_values() -> None:
    """A secret that the model refuses is not in the error."""
    text = error_of(pool_of(lambda settings, told: None, count="secret:env:A"))
    assert "count" in text
    assert "T0KEN" not in text


def test_what_cannot_be_sent_at_all() -> None:
    """An alert that is not declared, a secret that cannot be resolved, and an emitter type that is gone say so."""

    def unset(reference: str) -> str:
        raise ConfigurationError("the environment variable A of a secret is not set")

    assert error_of(pool_of(lambda settings, told: None), name="nobody") == 'no alert "nobody" is declared'
    assert "A of a secret is not set" in error_of(pool_of(lambda settings, told: None, secret=unset, url="secret:env:A"))
    gone = EmitterPool(Registry(), secret=str)
    gone.replace({"on-call": AlertSpec(rule=AlertRule(name="on-call"), type="gone")})
    assert "unknown alert emitter 'gone'" in error_of(gone)


async def _leave(booth: Booth, go_on: threading.Event) -> None:
    """Begins a call that blocks, and leaves it once it does."""
    begun = threading.Event()

    def block() -> None:
        begun.set()
        go_on.wait()

    blocked = asyncio.ensure_future(booth.call(block))
    while not begun.is_set():
        await asyncio.sleep(0)
    blocked.cancel()
    await asyncio.wait({blocked})


def test_a_call_that_blocks_frees_its_caller() -> None:
    """Cancelled, a call that blocks its thread keeps that thread and nobody else; the next call has another one."""
    go_on = threading.Event()

    async def main() -> list[int]:
        booth = Booth("on-call")
        left = []
        await _leave(booth, go_on)
        left.append(booth.left)
        assert await booth.call(lambda: None) is None
        go_on.set()
        while booth.left:
            await asyncio.sleep(0)
        booth.close()
        return left

    assert asyncio.run(main()) == [1]


def test_too_many_that_hang_are_enough() -> None:
    """While four calls hang no further one is made."""
    go_on = threading.Event()

    async def main() -> BaseException | None:
        booth = Booth("on-call")
        for _ in range(4):
            await _leave(booth, go_on)
        error = await booth.call(lambda: None)
        go_on.set()
        booth.close()
        return error

    error = asyncio.run(main())
    assert isinstance(error, TimeoutError)
    assert "4 earlier calls still hang" in str(error)


def test_an_emitter_that_cancels_itself_did_not_send() -> None:
    """A cancellation that nobody asked for is a failure like any other."""

    async def itself(settings: Settings, told: Alert) -> None:
        raise asyncio.CancelledError

    pool = pool_of(itself)

    async def main() -> str | None:
        try:
            return await send_within(pool, "on-call", alert())
        finally:
            pool.close()

    assert asyncio.run(main()) == "CancelledError"


def test_a_changed_alert_is_built_anew() -> None:
    """After the files were read again, other settings are used."""
    seen: list[str] = []

    async def main() -> None:
        pool = pool_of(lambda settings, told: seen.append(settings.url), url="a")
        await pool.emit("on-call", alert())
        pool.replace({"on-call": AlertSpec(rule=AlertRule(name="on-call"), type="any", settings={"url": "b"})})
        await pool.emit("on-call", alert())
        pool.close()

    asyncio.run(main())
    assert seen == ["a", "b"]


def test_short_words_are_left() -> None:
    """Secrets of fewer than four characters are not looked for: they would mask any text."""
    assert redacted("a bad day", ["a", ""]) == "a bad day"
    assert redacted("token hunter22", ["hunter22"]) == "token ***"
