"""Secrets stay references in settings; here one is resolved, late, by whoever needs it."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import Final

from cronpad_core.config.problems import did_you_mean, printable
from cronpad_core.domain.errors import ConfigurationError

__all__ = ["SCHEMES", "is_reference", "resolve_secret"]

SCHEMES: Final = ("env", "file")
_PREFIX: Final = "secret:"
_LARGEST: Final = 64 * 1024


def is_reference(value: object) -> bool:
    """Whether a setting is a reference and not the value itself."""
    return isinstance(value, str) and value.startswith(_PREFIX)


def resolve_secret(reference: str, environ: Mapping[str, str]) -> str:
    """The secret behind ``secret:env:NAME`` or ``secret:file:/path``, without one newline at its end.

    Raises ``ConfigurationError``; the message names the reference and never holds any of the secret.
    """
    if not is_reference(reference):
        raise ConfigurationError("not a secret reference", hint="write secret:env:NAME or secret:file:/path")
    scheme, colon, target = reference.removeprefix(_PREFIX).partition(":")
    if scheme not in SCHEMES:
        message = f'unknown kind of secret "{printable(scheme[:40])}"; known: {", ".join(SCHEMES)}'
        raise ConfigurationError(message, hint=did_you_mean(scheme, SCHEMES))
    if not colon or not target:
        raise ConfigurationError(f"{printable(reference)} names nothing", hint="write secret:env:NAME or secret:file:/path")
    return _from_environment(target, environ) if scheme == "env" else _from_file(target)


def _from_environment(name: str, environ: Mapping[str, str]) -> str:
    value = environ.get(name)
    if value is None:
        raise ConfigurationError(f"the environment variable {printable(name)} of a secret is not set")
    if not value:
        raise ConfigurationError(f"the environment variable {printable(name)} of a secret is empty")
    return value


def _from_file(path: str) -> str:
    shown = printable(path)
    if not os.path.isabs(path) or "\0" in path:
        raise ConfigurationError(f"the path of a secret must be absolute: {shown}")
    try:
        # O_NONBLOCK: opening a pipe must not wait for its writer; it is refused below.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        link = " (symbolic links are not followed)" if os.path.islink(path) else ""
        raise ConfigurationError(f"the secret file {shown} cannot be opened: {error.strerror}{link}") from None
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise ConfigurationError(f"the secret file {shown} is not a regular file")
        if mode & stat.S_IROTH:
            raise ConfigurationError(f"the secret file {shown} can be read by everybody", hint=f"chmod o-r {shown}")
        content = _read(descriptor)
    except OSError as error:
        raise ConfigurationError(f"the secret file {shown} cannot be read: {error.strerror}") from None
    finally:
        os.close(descriptor)
    if len(content) > _LARGEST:
        raise ConfigurationError(f"the secret file {shown} is larger than 64 KiB")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise ConfigurationError(f"the secret file {shown} is not UTF-8 text") from None
    text = text.removesuffix("\n").removesuffix("\r")
    if not text:
        raise ConfigurationError(f"the secret file {shown} is empty")
    return text


def _read(descriptor: int) -> bytes:
    content = b""
    while len(content) <= _LARGEST and (part := os.read(descriptor, _LARGEST + 1 - len(content))):
        content += part
    return content
