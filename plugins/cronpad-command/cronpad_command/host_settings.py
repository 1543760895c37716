"""What ``[plugins.command]`` may say, for all commands of a runner."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cronpad_core.api import JsonValue, PluginError

__all__ = ["HostSettings", "host_settings"]


class HostSettings(BaseModel):
    """The host-wide settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    nursery: bool = Field(
        default=True,
        description="Whether a nursery starts the commands, and ends all that a run leaves (Linux); else the runner itself does.",
    )


def host_settings(given: Mapping[str, JsonValue]) -> HostSettings:
    """The settings. Raises ``PluginError`` that names what is wrong."""
    try:
        return HostSettings.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        known = ", ".join(HostSettings.model_fields)
        raise PluginError(
            f"[plugins.command] {'.'.join(map(str, first['loc']))}: {first['msg']}; its settings are: {known}"
        ) from error
