"""``cronpad schema`` says of a file what the reader says of it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ConfigDict

from cronpad_core.config.file_schema import file_schema
from cronpad_core.config.sample import SAMPLE
from cronpad_core.host import load_plugins

DOCS = Path(__file__).resolve().parents[3] / "docs"
EXAMPLES = sorted([*DOCS.glob("examples/*.json"), *DOCS.glob("examples/*.toml"), *DOCS.glob("examples/*/jobs.toml")])


class Emitter(BaseModel):
    """An alert emitter's settings."""

    model_config = ConfigDict(extra="forbid")
    url: str


@pytest.fixture
def validator(monkeypatch: pytest.MonkeyPatch) -> Draft202012Validator:
    """The schema of what is installed, of the sinks and policies of the examples, and of one alert emitter."""
    for folder in ("cronpad-hello", "cronpad-today"):
        monkeypatch.syspath_prepend(str(DOCS / "examples" / folder))
    from cronpad_hello.settings import HelloSettings
    from cronpad_today.settings import TodaySettings  # type: ignore[import-not-found, unused-ignore]  # an example's own

    registry = load_plugins({}).registry
    schema: Any = file_schema(
        registry.sink_models() | {"hello": HelloSettings},
        registry.misfire_models() | {"today": TodaySettings},
        {"mail": Emitter},
    )
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def _parsed(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if path.suffix == ".json" else tomllib.loads(text)


def _shown() -> Iterator[Any]:
    """The whole jobs files that pages show."""
    for page in sorted(DOCS.glob("*/*.md")):
        for block in re.findall(r"^```toml[^\n]*\n(version = 1\n.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
            yield pytest.param(block, id=page.name)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(DOCS)))
def test_every_example_is_valid(validator: Draft202012Validator, path: Path) -> None:
    """Each jobs file among the examples, the runner's JSON too, is valid by the schema."""
    assert [error.message for error in validator.iter_errors(_parsed(path))] == []


def test_there_are_examples() -> None:
    """The native one, the runner's, and one for each example plugin."""
    assert len(EXAMPLES) >= 4


@pytest.mark.parametrize("text", list(_shown()))
def test_every_file_that_a_page_shows_is_valid(validator: Draft202012Validator, text: str) -> None:
    """Whole jobs files on the pages are valid by the schema, but for sinks that are not installed."""
    data = tomllib.loads(text)
    known = validator.schema["$defs"]
    for job in data.get("jobs", []):
        kind = job.get("sink", {}).get("type") if isinstance(job.get("sink"), dict) else None
        if kind is not None and f"sink.{kind}" not in known:
            job["sink"] = {"type": "command", "command": "true"}
    data.pop("alerts", None)
    assert [error.message for error in validator.iter_errors(data)] == []


def test_the_sample_is_valid(validator: Draft202012Validator) -> None:
    """What ``cronpad init`` writes is valid by the schema."""
    assert [error.message for error in validator.iter_errors(tomllib.loads(SAMPLE))] == []


JOB = {"name": "a", "schedule": "@daily", "command": "true"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"version": 2, "jobs": [JOB]},
        {"version": 1, "jobs": [{**JOB, "comand": "true"}]},
        {"version": 1, "jobs": [{**JOB, "timeout": "10 parsecs"}]},
        {"version": 1, "jobs": [{**JOB, "sink": {"type": "no such sink"}}]},
        {"version": 1, "jobs": [{**JOB, "misfire": "sometimes"}]},
        {"version": 1, "jobs": [{"name": "a", "schedule": "@daily", "sink": {"type": "hello", "path": "x", "who": "y"}}]},
        {"version": 1, "jobs": [{"name": "a", "schedule": "@daily", "sink": {"type": "hello"}}]},
        {"version": 1, "jobs": [{**JOB, "misfire": {"policy": "today", "max": 0}}]},
        {"version": 1, "jobs": [JOB], "alerts": {"me": {"type": "mail"}}},
        {"version": 1, "jobs": [JOB], "alerts": {"me": {"type": "post", "url": "x"}}},
        {"jobs": [{**JOB, "max_retries": -1}]},
        {"jobs": [JOB], "defaults": {}},
    ],
    ids=str,
)
def test_mistakes_are_found(validator: Draft202012Validator, wrong: dict[str, Any]) -> None:
    """Unknown keys, types and values of the file itself and of plugins' settings are errors by the schema."""
    assert not validator.is_valid(wrong)


def test_alerts_know_their_emitter(validator: Draft202012Validator) -> None:
    """An alert with the settings of an installed emitter is valid."""
    assert validator.is_valid({"version": 1, "jobs": [JOB], "alerts": {"me": {"type": "mail", "url": "x"}}})
