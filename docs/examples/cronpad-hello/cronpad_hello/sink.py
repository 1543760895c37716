"""The sink ``hello``."""

from __future__ import annotations

import threading
from typing import ClassVar

from cronpad_core.api import Cancelled, Delivered, Delivery, Failed, Outcome, SinkContext
from cronpad_hello.settings import HelloSettings


class HelloSink:
    """Appends one greeting for each run to a file."""

    name: ClassVar[str] = "hello"
    api: ClassVar[int] = 1
    Settings: ClassVar[type[HelloSettings]] = HelloSettings
    capabilities: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, context: SinkContext) -> None:
        self._writing = threading.Lock()  # one object serves all jobs, many deliveries at once

    def deliver(self, delivery: Delivery) -> Outcome:
        """Greets, and answers what became of it. A plain ``def`` is run in a thread."""
        settings = delivery.settings
        assert isinstance(settings, HelloSettings)
        if delivery.cancel.stage is not None:
            return Cancelled(reason="asked to stop before anything was written")
        try:
            done = self.greet(settings, job=delivery.job_name, key=delivery.idempotency_key)
        except OSError as error:
            return Failed(reason=f"{settings.path}: {error.strerror}", undelivered=True)
        return Delivered(reason=done)

    def greet(self, settings: HelloSettings, *, job: str, key: str) -> str:
        """Writes the line, unless an earlier delivery of the same run did."""
        with self._writing, settings.path.open("a+", encoding="utf-8") as file:
            file.seek(0)
            if any(line.endswith(f"[{key}]\n") for line in file):
                return "already written"
            file.write(f"hello {settings.whom}, from {job} [{key}]\n")
        return f"greeted {settings.whom}"

    async def close(self) -> None:
        """Nothing is kept open."""
