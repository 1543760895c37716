"""Whether the time-zone data is other data than before is told by its files, not by what they say."""

from __future__ import annotations

import os
import zoneinfo
from typing import Any

import pytest

from cronpad_core.runtime import zone_data
from cronpad_core.runtime.zone_data import ZoneData


def test_the_same_data_is_no_update(city: Any) -> None:
    """Asked as often as one likes; a process that only reads zones updates nothing."""
    data = ZoneData()
    assert zoneinfo.ZoneInfo(city.name)
    assert not any(data.updated() for _ in range(3))


def test_new_data_is_an_update_once(city: Any) -> None:
    """Files that are replaced are noticed at the next look, and then are the data of now."""
    data = ZoneData()
    city.becomes("America/New_York")
    assert data.updated() and not data.updated()


@pytest.mark.parametrize("name", ["tzdata.zi", "+VERSION", "version"])
def test_a_file_that_tells_the_version(city: Any, name: str) -> None:
    """Written anew under the same size and time, come or gone: each is another version."""
    told = city.directory / name
    told.write_text("2026a")
    data = ZoneData()
    before = told.stat()
    fresh = city.directory / "fresh"
    fresh.write_text("2026b")
    os.utime(fresh, ns=(before.st_atime_ns, before.st_mtime_ns))
    fresh.replace(told)
    assert data.updated()
    told.unlink()
    assert data.updated()
    told.write_text("2026c")
    assert data.updated() and not data.updated()


def test_the_package_counts_where_the_system_has_none(city: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a directory of zones the data is that of the package, which tells its version."""
    zoneinfo.reset_tzpath(to=[])
    monkeypatch.setattr(zone_data, "version", lambda name: "2026.1")
    data = ZoneData()
    assert not data.updated()
    monkeypatch.setattr(zone_data, "version", lambda name: "2026.2")
    assert data.updated()


def test_without_any_data_nothing_is_updated(city: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without zones, and without the package, is none that raises here."""

    def missing(name: str) -> str:
        raise zone_data.PackageNotFoundError(name)

    zoneinfo.reset_tzpath(to=[])
    monkeypatch.setattr(zone_data, "version", missing)
    assert not ZoneData().updated()
