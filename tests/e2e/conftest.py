"""These tests start real processes and mostly wait for them, so they run side by side; pytest asks for each result in turn."""

from __future__ import annotations

import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("stage", "books")

from stage import Stage  # noqa: E402  # needs the path

_AT_ONCE = 6
_HERE = Path(__file__).parent


@pytest.fixture
def stage() -> None:
    """A :class:`stage.Stage` of its own, made where the test runs: see ``SideBySide``."""


class SideBySide:
    """Begins with all selected tests of this directory when pytest comes to the first of them."""

    def __init__(self, items: list[pytest.Function], root: Path) -> None:
        self._pool = ThreadPoolExecutor(_AT_ONCE)
        self._stages: list[Stage] = []
        self._results: dict[str, Future[None]] = {}
        for number, item in enumerate(items):
            place = root / f"{number:02}-{item.originalname[5:40]}"
            self._results[item.nodeid] = self._pool.submit(self._run, item, place)

    def _run(self, item: pytest.Function, place: Path) -> None:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        with Stage(place) as stage:
            self._stages.append(stage)
            item.obj(stage=stage, **parameters)

    def result(self, item: pytest.Function) -> None:
        """Waits for a test, and raises what it raised."""
        self._results[item.nodeid].result()

    def close(self) -> None:
        """Ends what nobody waits for any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for stage in self._stages:
            stage.end_everything()
        self._pool.shutdown()


_KEY = pytest.StashKey[SideBySide]()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Takes the place of the call of a test that has a stage."""
    session = pyfuncitem.session
    if "stage" not in pyfuncitem.fixturenames:
        return None
    if _KEY not in session.stash:
        items = [
            item
            for item in session.items
            if isinstance(item, pytest.Function) and item.path.is_relative_to(_HERE) and "stage" in item.fixturenames
        ]
        root: Path = pyfuncitem.config._tmp_path_factory.mktemp("e2e")  # type: ignore[attr-defined]  # no fixture is at hand
        session.stash[_KEY] = SideBySide(items, root)
    session.stash[_KEY].result(pyfuncitem)
    return True


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leaves no process behind, however the session ended."""
    if _KEY in session.stash:
        session.stash[_KEY].close()
