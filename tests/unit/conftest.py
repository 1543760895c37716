"""A place with time-zone data of its own, for tests of what happens when the data is updated."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from cronpad_core.schedules import forget_zone_rules


class City:
    """The zone ``Test/City``: a file in a directory that zoneinfo reads, with the rules of whatever real zone it was given."""

    name = "Test/City"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._updates = 0

    def becomes(self, zone: str) -> None:
        """New data: the file of another zone lies under the city's name, and the data has another version."""
        self._updates += 1
        self._write(self.name, self._rules(zone))
        self._write("tzdata.zi", f"# version test-{self._updates}\n".encode())

    def _write(self, name: str, content: bytes) -> None:
        target = self.directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = self.directory / "draft"
        draft.write_bytes(content)
        draft.replace(target)

    @staticmethod
    def _rules(zone: str) -> bytes:
        rules = files("tzdata").joinpath("zoneinfo", *zone.split("/")).read_bytes()
        assert rules.startswith(b"TZif")
        return rules


@pytest.fixture
def city(tmp_path: Path) -> Iterator[City]:
    """``Test/City`` with the rules of Zurich."""
    place = City(tmp_path / "zoneinfo")
    place.becomes("Europe/Zurich")
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(to=[str(place.directory)])
    forget_zone_rules()
    yield place
    zoneinfo.reset_tzpath(to=before)
    forget_zone_rules()
