"""What ``init`` writes is valid, and the schema knows what the reader knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic import BaseModel

from cronpad_core.config.job_table import JOB_KEYS
from cronpad_core.config.jobsfile import LoadedFiles
from cronpad_core.config.sample import SAMPLE
from cronpad_core.config.schema import jobs_schema
from cronpad_core.config.shared_keys import SHARED_KEYS
from cronpad_core.domain.overlap import OverlapPolicy

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


def test_the_schema_has_the_limits_of_a_job(types: Types) -> None:
    """Overlap is any policy, with a number only where it means something; workspaces, caps and the sla have their bounds."""
    schema = cast("dict[str, Any]", jobs_schema(*types))
    job = schema["properties"]["jobs"]["items"]["properties"]
    word, bounded, others = job["overlap"]["anyOf"]
    assert word["enum"] == [policy.value for policy in OverlapPolicy]
    assert bounded["properties"]["policy"]["enum"] == ["allow", "queue_all"]
    assert bounded["properties"]["max"]["minimum"] == 1
    assert others["properties"]["policy"]["enum"] == ["skip", "queue_one", "cancel_running", "kill_running"]
    assert others["properties"]["max"] == {"const": 1}
    number, table = job["concurrency"]["anyOf"]
    assert number == table["properties"]["max"]
    assert set(table["properties"]) == {"max", "key"}
    assert set(job["sla"]["properties"]) == {"start_within", "finish_within"}
    assert job["sla"]["additionalProperties"] is table["additionalProperties"] is False
    pattern = re.compile(job["workspace"]["pattern"])
    assert [bool(pattern.search(name)) for name in ("default", "a.b_c-9", "Team", "a b", "", "w" * 65, "${TEAM}")] == [
        True,
        True,
        False,
        False,
        False,
        False,
        True,
    ]
