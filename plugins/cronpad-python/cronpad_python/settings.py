"""What a jobs file may say of a function."""

from __future__ import annotations

import keyword
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

__all__ = ["Settings"]


def _checked_call(call: str) -> str:
    """Refuses what cannot be an import path, with a hint of what to write."""
    module, colon, function = call.partition(":")
    parts = [*module.split("."), *function.split(".")]
    if not colon or not all(part.isidentifier() and not keyword.iskeyword(part) for part in parts):
        raise ValueError(f'{call!r} is no path of a function: write "package.module:function"')
    return call


def _checked_args(args: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Refuses names that no parameter can have."""
    for name in args:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(f"{name!r} cannot be the name of a parameter")
        if name == "delivery":
            raise ValueError("the delivery is given by cronpad; name the argument otherwise")
    return args


class Settings(BaseModel):
    """One job's function. Checked without importing it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    call: Annotated[str, AfterValidator(_checked_call)] = Field(description="The function, as package.module:function.")
    args: Annotated[dict[str, JsonValue], AfterValidator(_checked_args)] = Field(
        default_factory=dict, description="Keyword arguments; secret references in them are resolved for each call."
    )
    runs_in: Literal["async", "thread"] | None = Field(
        default=None,
        alias="in",
        description="async: on the event loop, for an async def; thread: in a thread, for a plain def. By default, what fits.",
    )
