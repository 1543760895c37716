"""What ``[plugins.webhook]`` may say, for all webhooks of a runner."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from cronpad_core.api import JsonValue, PluginError
from cronpad_webhook.addresses import Allowance, Profile
from cronpad_webhook.durations import read_duration
from cronpad_webhook.references import check_url, is_reference

__all__ = ["HostSettings", "allowance", "host_settings"]


def allowance(text: str) -> Allowance:
    """Reads ``10.1.0.0/16``, ``10.1.2.3:8443`` or ``[fd00::]/8:443``. Raises ``ValueError``."""
    hint = f"{text[:60]!r} is no network: write 10.1.0.0/16, 10.1.2.3:8443 or [fd12::]/64:443"
    place, port = text, None
    head, colon, tail = text.rpartition(":")
    if colon and tail.isdecimal() and (text.startswith("[") or ":" not in head):
        place, port = head, int(tail)
        if not 0 < port < 65_536:
            raise ValueError(hint)
    try:
        return Allowance(network=ipaddress.ip_network(place.replace("[", "").replace("]", "")), port=port)
    except ValueError:
        raise ValueError(hint) from None


def _checked_allow(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        allowance(text)
    return texts


def _checked_proxy(url: str | None) -> str | None:
    return url if url is None or is_reference(url) else check_url(url)


class HostSettings(BaseModel):
    """The host-wide settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    profile: Profile = Field(
        default=Profile.SINGLE,
        description="single: private addresses may be reached; multi: public ones alone, on ports 80, 443, 8080 and 8443.",
    )
    allow: Annotated[tuple[str, ...], AfterValidator(_checked_allow)] = Field(
        default=(), description="Networks, each with or without a port, that multi may reach all the same."
    )
    proxy: Annotated[str | None, AfterValidator(_checked_proxy)] = Field(
        default=None, description="A proxy for all requests, which then decides about addresses; may be a secret."
    )
    concurrency: int = Field(default=0, ge=0, description="Requests to one host and port at once; 0 is no limit.")
    rate: int = Field(default=0, ge=0, description="Requests to one host and port in each second; 0 is no limit.")
    breaker_after: int = Field(
        default=0, ge=0, description="Failures of one host and port in a row after which it is left alone; 0 never does."
    )
    breaker_for: Annotated[timedelta, BeforeValidator(read_duration)] = Field(
        default=timedelta(seconds=30), gt=timedelta(0), le=timedelta(hours=1), description="How long it is left alone."
    )


def host_settings(given: Mapping[str, JsonValue]) -> HostSettings:
    """The settings. Raises ``PluginError`` that names what is wrong."""
    try:
        return HostSettings.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        known = ", ".join(HostSettings.model_fields)
        raise PluginError(
            f"[plugins.webhook] {'.'.join(map(str, first['loc']))}: {first['msg']}; its settings are: {known}"
        ) from error
