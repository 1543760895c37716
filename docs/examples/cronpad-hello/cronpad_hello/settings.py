"""What a jobs file may say of a greeting."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class HelloSettings(BaseModel):
    """One job's ``sink`` table. Unknown keys are errors, so a typing mistake is found when the file is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Path = Field(description="The file that greetings are appended to.")
    whom: str = Field(default="world", min_length=1, description="Who is greeted.")
