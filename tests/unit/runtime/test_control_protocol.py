"""Where the control socket is, and how errors and lines travel over it."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from cronpad_core.domain import errors
from cronpad_core.domain.errors import ConfigurationError, CronpadError, NotFoundError, ScheduleError
from cronpad_core.runtime.control_protocol import (
    error_document,
    error_of,
    line_of,
    parse_line,
    reachable,
    socket_name,
    socket_path,
)


class _Narrower(NotFoundError):
    """A class that is not in the tree."""


_TREE = [getattr(errors, name) for name in errors.__all__ if name != "ScheduleError"]


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///var/lib/cronpad", "/var/lib/cronpad/control.sock"),
        ("sqlite:////var/lib/cronpad", "/var/lib/cronpad/control.sock"),
        ("sqlite:///var/lib/a%20b", "/var/lib/a b/control.sock"),
        ("sqlite:///var/lib/cronpad.db", "/var/lib/control.sock"),
        ("sqlite:///var/lib/other.db", "/var/lib/other-control.sock"),
    ],
)
def test_each_state_has_a_socket_of_its_own(url: str, path: str) -> None:
    """It lies beside the control database, and two of those in one directory have two."""
    found = socket_path(url)
    assert found == Path(path)
    assert found.name == socket_name(url)


def test_other_states_have_none_that_is_known() -> None:
    """A state in memory or on a server is in no directory."""
    assert socket_path("memory://") is None
    assert socket_path("postgresql://host/base") is None


def test_a_long_path_is_reachable_by_a_short_name(tmp_path: Path) -> None:
    """The name that is answered fits an address and means the same file; a short path is its own name."""
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    path = deep / "control.sock"
    with reachable(path) as address, socket.socket(socket.AF_UNIX) as listener:
        assert len(os.fsencode(address)) < 104
        listener.bind(address)
        assert path.is_socket()
    with reachable(Path("/run/control.sock")) as address:
        assert address == "/run/control.sock"
    with pytest.raises(OSError, match="No such file"), reachable(tmp_path / ("x" * 120) / "control.sock"):
        raise AssertionError("there is no such directory")


@pytest.mark.parametrize("build", _TREE)
def test_every_error_arrives_as_what_it_was(build: type[CronpadError]) -> None:
    """Class, exit code, message and hint survive the journey as JSON."""
    sent = build("what", hint="mend")
    found = error_of(json.loads(json.dumps(error_document(sent))))
    assert (type(found), found.message, found.hint, found.exit_code) == (build, "what", "mend", build.exit_code)


def test_errors_with_more_to_them() -> None:
    """A report goes along; a schedule's error stays one; a class that is not in the tree arrives as the nearest that is."""
    refused = error_of(error_document(ConfigurationError("2 problems", report="a\nb")))
    assert isinstance(refused, ConfigurationError) and refused.report == "a\nb"
    assert isinstance(error_of(error_document(ScheduleError("no minute 61", code="range"))), ScheduleError)
    assert type(error_of(error_document(_Narrower("x")))) is NotFoundError
    assert error_document(errors.TermRefusedError("no"))["kind"] == "standby"
    for odd in (None, [], {"kind": 3}, {"kind": "from_a_later_version", "message": "m", "hint": 7}):
        assert type(error_of(odd)) is CronpadError
    assert error_of({"kind": "busy", "message": "m"}).exit_code == 3
    assert error_document(NotFoundError("x")) == {"kind": "not_found", "message": "x", "hint": None}


@pytest.mark.parametrize("line", [b"", b"nothing", b"[1]", b'"a"', b"\xff", b'{"a": NaN}', b"[" * 100_000, b'{"a": 1} {"b": 2}'])
def test_what_is_no_document_is_refused(line: bytes) -> None:
    """A line is one JSON object, and nothing else."""
    with pytest.raises(ConfigurationError):
        parse_line(line)


def test_a_document_is_one_line() -> None:
    """Whatever is in it, its line has one end, and reads back as it was."""
    document = {"text": "a\nb\u2028ß", "deep": [None, {"x": 1.5}]}
    line = line_of(document)
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    assert parse_line(line) == document
    with pytest.raises(ValueError, match="JSON"):
        line_of({"x": float("nan")})
