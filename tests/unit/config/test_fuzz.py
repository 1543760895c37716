"""Any bytes are loaded or refused: nothing else comes out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from cronpad_core.config.jobsfile import LoadedFiles, load_jobs
from cronpad_core.domain.errors import ConfigurationError, CronpadError
from cronpad_core.domain.job import JobSpec

Types = tuple[Mapping[str, type[BaseModel]], Mapping[str, "type[BaseModel] | None"]]

FUZZ = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
NAMES = ("jobs.json", "jobs.toml", "jobs.yaml", "crontab", "jobs")
WORDS = st.sampled_from(
    [
        "version",
        "jobs",
        "name",
        "schedule",
        "command",
        "sink",
        "type",
        "timeout",
        "timeout_ms",
        "retry",
        "overlap",
        "concurrency",
        "key",
        "sla",
        "start_within",
        "finish_within",
        "workspace",
        "queue_all",
        "misfire",
        "dst",
        "defaults",
        "alerts",
        "timezone",
        "tags",
        "id",
        "policy",
        "max",
        "cron",
        "every",
        "at",
        "url",
        "webhook",
        "x-a",
        "skip",
        "all",
        "${A}",
        "$$",
        "5s",
        "a/b",
        "secret:env:A",
    ]
) | st.sampled_from(["", "* * * * *", "61 * * * *", "0 0 30 2 *", "every 5m", "L W #"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | WORDS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=5), inner, max_size=5),
    max_leaves=25,
)
JOBS = st.fixed_dictionaries(
    {},
    optional={
        key: VALUES
        for key in (
            "name",
            "schedule",
            "command",
            "sink",
            "timeout",
            "retry",
            "overlap",
            "concurrency",
            "sla",
            "workspace",
            "misfire",
            "dst",
            "tags",
            "id",
            "timezone",
        )
    },
)


def _check(content: bytes, name: str, types: Types) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        try:
            loaded = load_jobs([path], sinks=types[0], misfires=types[1], environ={"A": "1"})
        except CronpadError as error:
            if isinstance(error, ConfigurationError):
                assert "\x1b" not in (error.report or "")
            return
    assert isinstance(loaded, LoadedFiles)
    for declared in loaded.specs:
        assert JobSpec.from_json(json.loads(json.dumps(declared.spec.to_json()))) == declared.spec
        assert declared.place.line >= 1


@pytest.mark.parametrize("name", NAMES)
def test_any_bytes(types: Types, name: str) -> None:
    """Bytes at random."""

    @FUZZ
    @given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
    def run(content: bytes) -> None:
        _check(content, name, types)

    run()


@pytest.mark.parametrize("name", ["jobs.json", "jobs.yaml"])
def test_any_data(types: Types, name: str) -> None:
    """Well-formed files with anything in them; JSON is YAML too."""

    @FUZZ
    @given(
        st.one_of(
            VALUES,
            st.fixed_dictionaries(
                {"version": st.just(1) | VALUES, "jobs": st.lists(JOBS | VALUES, max_size=4)},
                optional={"defaults": JOBS | VALUES, "alerts": VALUES},
            ),
            st.fixed_dictionaries({"jobs": st.lists(JOBS, max_size=4)}),
        )
    )
    def run(data: Any) -> None:
        _check(json.dumps(data).encode(), name, types)

    run()


def test_cut_and_changed_files(types: Types) -> None:
    """A good file with a piece cut out or put in."""
    good = (
        'version = 1\n[defaults]\nretry = { max = 1 }\n[[jobs]]\nname = "é"\nschedule = ["0 9 * * 1-5", "every 1h"]\n'
        'command = "x"\n[jobs.misfire]\npolicy = "all"\n[alerts."a b"]\ntype = "t"\n'
    )

    @FUZZ
    @given(st.integers(0, len(good)), st.integers(0, 12), st.text('[]{}="\n.#,\\é', max_size=4), st.sampled_from(NAMES))
    def run(at: int, count: int, text: str, name: str) -> None:
        _check((good[:at] + text + good[at + count :]).encode(), name, types)

    run()


def test_crontab_like_lines(types: Types) -> None:
    """Lines made of what crontabs are made of."""
    parts = st.sampled_from(["*", "*/5", "0", "61", "@daily", "@reboot", "A=b", "CRON_TZ=", "%", "\\%", "# cronpad:", "name=a"])

    @FUZZ
    @given(st.lists(st.lists(parts, max_size=9).map(" ".join), max_size=5).map("\n".join))
    def run(text: str) -> None:
        _check(text.encode(), "crontab", types)

    run()
