"""Two sinks and three policies with their models, and a loader that writes files first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict

from cronpad_core.config.jobsfile import LoadedFiles, load_jobs


class CommandSettings(BaseModel):
    """As the command sink's."""

    model_config = ConfigDict(extra="forbid")

    command: str | list[str]
    env: dict[str, str] = {}
    env_mode: Literal["inherit", "clean"] = "inherit"


class WebhookSettings(BaseModel):
    """As the webhook sink's."""

    model_config = ConfigDict(extra="forbid")

    url: str
    method: Literal["GET", "POST"] = "POST"
    headers: dict[str, str] = {}
    attempts: int = 1
    sign_with: str | None = None


class AllSettings(BaseModel):
    """As the policy ``all``'s."""

    model_config = ConfigDict(extra="forbid")

    max: int = 100


class ChatSettings(BaseModel):
    """As an alert emitter's."""

    model_config = ConfigDict(extra="forbid")

    url: str = "x"
    token: str | None = None


SINKS: Mapping[str, type[BaseModel]] = {"command": CommandSettings, "webhook": WebhookSettings}
MISFIRES: Mapping[str, type[BaseModel] | None] = {"latest": None, "skip": None, "all": AllSettings}

EMITTERS: Mapping[str, type[BaseModel]] = {"apprise": ChatSettings, "t": ChatSettings}

Load = Callable[..., LoadedFiles]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """``load({"jobs.toml": text, …}, environ=…)``: writes the files, goes there, and loads them in that order."""
    monkeypatch.chdir(tmp_path)

    def run(
        files: Mapping[str, str | bytes],
        *,
        environ: Mapping[str, str] | None = None,
        unavailable: Mapping[str, str] | None = None,
        system: bool = False,
    ) -> LoadedFiles:
        for name, content in files.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
        paths = [Path(name) for name in files]
        return load_jobs(
            paths,
            sinks=SINKS,
            misfires=MISFIRES,
            emitters=EMITTERS,
            environ=environ or {},
            unavailable=unavailable or {},
            system=system,
        )

    return run


@pytest.fixture
def report(load: Load) -> Callable[..., str]:
    """The report of a file that is refused."""
    from cronpad_core.domain.errors import ConfigurationError

    def run(content: str | bytes, name: str = "jobs.toml", **options: object) -> str:
        with pytest.raises(ConfigurationError) as caught:
            load({name: content}, **options)
        assert caught.value.exit_code == 2
        assert caught.value.report is not None
        return caught.value.report

    return run


@pytest.fixture
def types() -> tuple[Mapping[str, type[BaseModel]], Mapping[str, type[BaseModel] | None]]:
    """The models of the sinks and of the policies."""
    return SINKS, MISFIRES
