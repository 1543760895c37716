"""What ``init`` writes is valid, and the schema knows what the reader knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic import BaseModel

from cronpad_core.config.job_table import JOB_KEYS
from cronpad_core.config.jobsfile import LoadedFiles
from cronpad_core.config.sample import SAMPLE
from cronpad_core.config.schema import jobs_schema
from cronpad_core.config.shared_keys import SHARED_KEYS

Load = Callable[..., LoadedFiles]
Types = tuple[Mapping[str, type[BaseModel]], Mapping[str, "type[BaseModel] | None"]]


def test_the_sample_is_valid(load: Load) -> None:
    """The sample loads without an error or a warning."""
    loaded = load({"jobs.toml": SAMPLE})
    assert len(loaded.specs) == 3
    assert loaded.warnings == ()


def test_the_schema_has_the_readers_keys(types: Types) -> None:
    """Jobs and defaults have in the schema exactly the keys that the reader knows."""
    schema = cast("dict[str, Any]", jobs_schema(*types))
    assert set(schema["properties"]["jobs"]["items"]["properties"]) == set(JOB_KEYS)
    assert set(schema["properties"]["defaults"]["properties"]) == set(SHARED_KEYS)
    assert set(schema["$defs"]) == {"sink.command", "sink.webhook", "misfire.all", "misfire.latest", "misfire.skip"}
    assert schema["$defs"]["sink.webhook"]["required"] == ["url"]
