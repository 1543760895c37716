"""Secrets are resolved from references, and never shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cronpad_core.config.secrets import is_reference, resolve_secret
from cronpad_core.domain.errors import ConfigurationError


def test_environment() -> None:
    """``secret:env:NAME`` is the variable's value."""
    assert is_reference("secret:env:A")
    assert not is_reference("a")
    assert not is_reference(5)
    assert resolve_secret("secret:env:A", {"A": "s3\n"}) == "s3\n"


@pytest.mark.parametrize(("content", "secret"), [(b"s3", "s3"), (b"s3\n", "s3"), (b"s3\r\n", "s3"), (b"s3\n\n", "s3\n")])
def test_file(tmp_path: Path, content: bytes, secret: str) -> None:
    """``secret:file:/path`` is the file's text without one newline at its end."""
    path = tmp_path / "secret"
    path.write_bytes(content)
    path.chmod(0o600)
    assert resolve_secret(f"secret:file:{path}", {}) == secret


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("plain", "not a secret reference"),
        ("secret:", "unknown kind of secret"),
        ("secret:vault:x", "known: env, file"),
        ("secret:env:", "names nothing"),
        ("secret:env:NONE", "NONE of a secret is not set"),
        ("secret:env:EMPTY", "is empty"),
        ("secret:file:relative", "must be absolute"),
        ("secret:file:/nowhere/at/all", "cannot be opened: No such file"),
        ("secret:file:/", "not a regular file"),
    ],
)
def test_refused_references(reference: str, words: str) -> None:
    """What cannot be resolved is refused, naming the reference."""
    with pytest.raises(ConfigurationError, match=words):
        resolve_secret(reference, {"EMPTY": ""})


def test_refused_files(tmp_path: Path) -> None:
    """Links, pipes, large, public, empty and odd files are refused; none of their text is in the message."""
    path = tmp_path / "secret"
    cases: list[tuple[bytes, int, str]] = [
        (b"canary" * 20_000, 0o600, "larger than 64 KiB"),
        (b"canary", 0o644, "can be read by everybody"),
        (b"", 0o600, "is empty"),
        (b"\n", 0o600, "is empty"),
        (b"canary\xff", 0o600, "not UTF-8"),
    ]
    for content, mode, words in cases:
        path.write_bytes(content)
        path.chmod(mode)
        with pytest.raises(ConfigurationError, match=words) as caught:
            resolve_secret(f"secret:file:{path}", {})
        assert "canary" not in str(caught.value)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(ConfigurationError, match="links are not followed"):
        resolve_secret(f"secret:file:{tmp_path / 'link'}", {})
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigurationError, match="not a regular file"):
        resolve_secret(f"secret:file:{tmp_path / 'pipe'}", {})
