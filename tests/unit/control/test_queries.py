"""Listings ask a store for bounded pages, however much it holds and however much is asked for (B108)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cronpad_core.builtin.memory import CatalogData, HistoryData
from cronpad_core.builtin.memory_catalog import MemoryCatalog
from cronpad_core.builtin.memory_history import MemoryHistory
from cronpad_core.control.queries import all_jobs, list_runs
from cronpad_testkit import samples

_PAGE = 1_000


class _Told:
    """A store that writes down the limits it is asked with."""

    def __init__(self, store: object, listing: str) -> None:
        self._store, self._listing = store, listing
        self.limits: list[int] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name != self._listing:
            return found

        async def told(**arguments: Any) -> Any:
            self.limits.append(arguments["limit"])
            return await found(**arguments)

        return told


def test_many_jobs_come_in_pages() -> None:
    """2,500 jobs are three pages, and all of them are there."""
    data = CatalogData()
    for number in range(2_500):
        data.set_job(samples.job(f"job_{number:04}"))
    catalog = _Told(MemoryCatalog(data), "jobs")
    jobs = asyncio.run(all_jobs(catalog))  # type: ignore[arg-type]  # a stand-in
    assert (len(jobs), catalog.limits) == (2_500, [_PAGE] * 3)


@pytest.mark.parametrize(("asked", "pages"), [(20, [20]), (1_000_000, [_PAGE])])
def test_many_runs_come_in_pages(asked: int, pages: list[int]) -> None:
    """Asked for a million, a listing asks the store for a page at a time."""
    history = _Told(MemoryHistory(HistoryData(), keep=10), "runs")
    catalog = MemoryCatalog(CatalogData())
    assert asyncio.run(list_runs(catalog, history, job=None, statuses=(), limit=asked)) == []  # type: ignore[arg-type]  # as above
    assert history.limits == pages
