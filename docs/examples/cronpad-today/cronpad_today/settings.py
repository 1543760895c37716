"""What a jobs file may say of the day."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, field_validator

_TIME_OF_DAY = re.compile(r"([01]\d|2[0-3])(:[0-5]\d){1,2}", re.ASCII)


class TodaySettings(BaseModel):
    """The policy's own keys of a ``misfire`` table. Unknown keys are errors, so a typing mistake is found when the file is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    begins: str = Field(default="00:00", description="When the day begins, as HH:MM or HH:MM:SS.")
    timezone: str = Field(default="UTC", description="The time zone of the day. A policy is not told that of the job.")
    max: int = Field(default=100, ge=1, description="If more slots than this were missed today, only the newest runs.")

    @field_validator("begins")
    @classmethod
    def _is_a_time_of_day(cls, text: str) -> str:
        if not _TIME_OF_DAY.fullmatch(text):
            raise ValueError(f'"{text}" is no time of day; write it like "06:00"')
        return text

    @field_validator("timezone")
    @classmethod
    def _is_a_zone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (LookupError, ValueError, OSError):
            raise ValueError(f'no time zone is named "{name}"; write one like "Europe/Berlin"') from None
        return name
