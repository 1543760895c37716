"""Several files and directories at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cronpad_core.config.jobsfile import LoadedFiles, load_jobs
from cronpad_core.domain.errors import ConfigurationError

Load = Callable[..., LoadedFiles]


def _job(name: str, extra: str = "") -> str:
    return f'version = 1\n[[jobs]]\nname = "{name}"\nschedule = "@daily"\ncommand = "x"\n{extra}'


def _load(path: Path, types: tuple[object, object]) -> LoadedFiles:
    sinks, misfires = types
    return load_jobs([path], sinks=sinks, misfires=misfires, environ={})  # type: ignore[arg-type]  # the fixture's types


def test_a_directory_loads_all_its_files_in_order(load: Load, types: tuple[object, object], tmp_path: Path) -> None:
    """All formats, sorted by name; hidden files, settings, other files and inner directories are passed over."""
    load(
        {
            "d/2.toml": _job("b"),
            "d/1.json": '{"jobs": [{"name": "a", "schedule": "@daily", "command": "x"}]}',
            "d/3.yaml": "version: 1\njobs: [{name: c, schedule: '@daily', command: x}]",
            "d/crontab": "# cronpad: name=d\n@daily x\n",
        }
    )
    for name in (".hidden.toml", "cronpad.toml", "notes.txt", "inner.toml/x.txt"):
        path = tmp_path / "d" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("nonsense")
    loaded = _load(Path("d"), types)
    assert [declared.spec.name for declared in loaded.specs] == ["a", "b", "c", "d"]
    assert [Path(declared.origin).name for declared in loaded.specs] == ["1.json", "2.toml", "3.yaml", "crontab"]


def test_an_empty_directory_is_an_error(types: tuple[object, object], tmp_path: Path) -> None:
    """A directory without a jobs file is refused, and the message says what would be read."""
    with pytest.raises(ConfigurationError) as caught:
        _load(tmp_path, types)
    assert "the directory has no jobs file in it" in (caught.value.report or "")
    assert "*.toml" in (caught.value.report or "")


def test_a_missing_file(types: tuple[object, object], tmp_path: Path) -> None:
    """A file that is not there is a configuration error with its name."""
    with pytest.raises(ConfigurationError) as caught:
        _load(tmp_path / "none.toml", types)
    assert "no such file" in (caught.value.report or "")
    assert "none.toml" in (caught.value.report or "")
    with pytest.raises(ConfigurationError, match="no jobs file was given"):
        load_jobs([], sinks={}, misfires={}, environ={})


def test_names_and_ids_are_unique_across_files(load: Load) -> None:
    """The second job of a name or an id is refused, and the first one's place is told."""
    with pytest.raises(ConfigurationError) as caught:
        load({"a.toml": _job("x", 'id = "i"\n'), "b.toml": _job("x"), "c.toml": _job("y", 'id = "i"\n')})
    report = caught.value.report or ""
    assert report.count("error[CP113]") == report.count("error[") == 2
    assert "first at a.toml:3:8" in report
    assert "first at a.toml:6:6" in report


def test_the_same_file_twice_is_read_once(types: tuple[object, object], load: Load) -> None:
    """A file that is given by name and by its directory is one file."""
    load({"d/a.toml": _job("a")})
    sinks, misfires = types
    paths = [Path("d/a.toml"), Path("d"), Path("./d/../d/a.toml")]
    loaded = load_jobs(paths, sinks=sinks, misfires=misfires, environ={})  # type: ignore[arg-type]  # the fixture's types
    assert len(loaded.specs) == 1


def test_alerts_of_all_files(load: Load) -> None:
    """Alerts are known across files, and unique."""
    loaded = load({"a.toml": _job("a", 'alerts = ["z"]\n'), "b.toml": "version = 1\n[alerts.z]\ntype = 't'\n"})
    assert loaded.warnings == ()
    with pytest.raises(ConfigurationError, match=r"1 error in c\.toml"):
        load({"b.toml": "version = 1\n[alerts.z]\ntype = 't'\n", "c.toml": "version = 1\n[alerts.z]\ntype = 't'\n"})
