"""Functions that tests have called."""

from __future__ import annotations

import asyncio
import sys
import threading

from cronpad_core.api import Delivery
from cronpad_python import DoNotRetry, RetryLater

RELEASED = threading.Event()


def add(left: int, right: int) -> dict[str, int]:
    return {"sum": left + right}


async def whose(delivery: Delivery) -> str:
    return delivery.job_name


def annotated(given: Delivery) -> str:
    return given.run_id


def fail(text: str = "no luck") -> None:
    raise ValueError(text)


def echo(text: str) -> str:
    return text


async def later() -> None:
    raise RetryLater(1.5)


async def never_again() -> None:
    raise DoNotRetry("gone for good")


def odd() -> object:
    return object()


def large() -> str:
    return "x" * 20_000


async def hang() -> None:
    await asyncio.Event().wait()


def block() -> None:
    RELEASED.wait(60)


def heeds(delivery: Delivery) -> str:
    while delivery.cancel.stage is None:
        RELEASED.wait(0.01)
    return "ended in order"


def leave() -> None:
    sys.exit(3)


async def leave_the_loop() -> None:
    sys.exit(3)


async def _fails_later() -> str:
    await asyncio.sleep(0)
    raise ValueError("later than it seemed")


def hidden(fails: bool) -> object:
    return _fails_later() if fails else _works_later()


async def _works_later() -> str:
    await asyncio.sleep(0)
    return "done"
