"""The alert emitter of the core itself: a line in the log."""

from __future__ import annotations

import json
import sys
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from cronpad_core.api import Alert, rfc3339

__all__ = ["LogEmitter"]


class LogSettings(BaseModel):
    """The settings of an alert of type ``log``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["json", "text"] = Field(default="json", description="How the line is written.")
    stream: Literal["stderr", "stdout"] = Field(default="stderr", description="Where the line is written.")


class LogEmitter:
    """Writes each alert as one line to the runner's own stderr or stdout."""

    name: ClassVar[str] = "log"
    api: ClassVar[int] = 1
    Settings: ClassVar[type[BaseModel]] = LogSettings

    def __init__(self, settings: LogSettings) -> None:
        self._settings = settings

    async def emit(self, alert: Alert) -> None:
        """Writes one line, in one piece."""
        if self._settings.format == "json":
            line = json.dumps({"event": "alert", **alert.to_json()})
        else:
            shown = json.dumps(alert.text, ensure_ascii=False)[1:-1]
            line = f"{rfc3339(alert.at_ms)} alert {alert.name}: {shown.encode('utf-8', 'backslashreplace').decode()}"
        stream = sys.stderr if self._settings.stream == "stderr" else sys.stdout
        stream.write(line + "\n")
        stream.flush()
