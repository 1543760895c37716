"""What a jobs file may say of a webhook."""

from __future__ import annotations

import posixpath
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator

from cronpad_webhook.headers import check_name, check_value
from cronpad_webhook.references import check_url, is_reference
from cronpad_webhook.signing import key_of
from cronpad_webhook.statuses import Meaning, check_rule
from cronpad_webhook.templates import check, texts_in

__all__ = ["File", "Settings", "checked_secrets", "checked_target", "listed"]

KIB = 1_024
MOST_READ = 1_024 * KIB


def checked_target(url: str) -> str:
    if is_reference(url):
        return url
    check_url(url)
    if "@" in urlsplit(url).netloc:
        raise ValueError('the URL holds a user or a password: put the whole URL into a secret, url = "secret:env:NAME"')
    return url


def _checked_headers(headers: dict[str, str]) -> dict[str, str]:
    seen: set[str] = set()
    for name, value in headers.items():
        if check_name(name).lower() in seen:
            raise ValueError(f"the header {name} is given twice")
        seen.add(name.lower())
        if not is_reference(value):
            check_value(name, check(value))
    return headers


def _checked_json(value: JsonValue) -> JsonValue:
    for text in texts_in(value):
        check(text)
    return value


def checked_secrets(secrets: tuple[str, ...]) -> tuple[str, ...]:
    for secret in secrets:
        if not is_reference(secret):
            key_of(secret)
    return secrets


def _checked_path(path: str | None) -> str | None:
    if path is not None and (not posixpath.isabs(path) or "\0" in path):
        raise ValueError(f"the path of a file must be absolute: {path!r}")
    return path


def listed(given: object) -> object:
    return [given] if isinstance(given, str) else given


File = Annotated[str | None, AfterValidator(_checked_path)]


class Settings(BaseModel):
    """One job's request. Any text of ``secret:…`` is looked up when the request is made, and kept nowhere."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    url: Annotated[str, AfterValidator(checked_target)] = Field(description="Where the request goes: http or https.")
    method: Literal["POST", "PUT", "PATCH", "DELETE", "GET", "HEAD"] = Field(default="POST", description="The method.")
    headers: Annotated[dict[str, str], AfterValidator(_checked_headers)] = Field(
        default_factory=dict, max_length=64, description="Further headers; a value may be a template or a secret."
    )
    bearer: str | None = Field(default=None, description="A secret that is sent as Authorization: Bearer.")
    body: Annotated[str, AfterValidator(check)] | None = Field(default=None, description="The body: a text, may be a template.")
    json_: Annotated[JsonValue, AfterValidator(_checked_json)] = Field(
        default=None, alias="json", description="The body: a JSON value, whose texts may be templates."
    )
    sign_with: Annotated[
        tuple[str, ...],
        BeforeValidator(listed, json_schema_input_type=str | tuple[str, ...]),
        AfterValidator(checked_secrets),
    ] = Field(default=(), max_length=4, description="Signing secrets, the current one first; each signs the request.")
    send_fence: bool = Field(default=False, description="Whether the fence of the run is sent, so that an older sender is known.")
    statuses: dict[Annotated[str, AfterValidator(check_rule)], Meaning] = Field(
        default_factory=dict, description="What a status (404) or a class (5xx) means: ok, retry, fail or gone."
    )
    redirects: int = Field(default=0, ge=0, le=3, description="How many redirects (307, 308) are followed; others never are.")
    response_read: int = Field(default=MOST_READ, ge=0, le=MOST_READ, description="Bytes of the answer that are read at most.")
    response_kept: int = Field(default=64 * KIB, ge=0, le=64 * KIB, description="Bytes of the answer that are kept at most.")
    ca_file: File = Field(default=None, description="The certificates of the authorities to trust instead of the system's.")
    client_cert: File = Field(default=None, description="The certificate to show, with its chain.")
    client_key: File = Field(default=None, description="Its key, without a password, where it is in a file of its own.")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.body is not None and self.json_ is not None:
            raise ValueError("give body or json, not both")
        if self.method in ("GET", "HEAD") and (self.body is not None or self.json_ is not None):
            raise ValueError(f"a {self.method} request has no body: leave body and json out, or choose another method")
        if self.bearer is not None and any(name.lower() == "authorization" for name in self.headers):
            raise ValueError("give bearer or the header Authorization, not both")
        if self.bearer is not None and not is_reference(self.bearer):
            raise ValueError('bearer must be a secret: bearer = "secret:env:NAME"')
        if self.client_key is not None and self.client_cert is None:
            raise ValueError("client_key is of no use without client_cert")
        return self
