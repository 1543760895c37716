"""Whatever is done to a job, and in whatever order: every slot has one outcome."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from office import T0, Office, declared

from cronpad_core.domain.errors import CronpadError

S = 1_000
LONG = 150 * S
"""After which no slot of before is excused for being young."""

TEXTS = ("every 10s", "every 7s", "*/15 * * * * *", "at 2026-01-01T00:01:30Z", "0,20,40 * * * * *")


def do(office: Office, step: tuple[str, Any]) -> None:
    """One step of somebody; what the state of the job does not allow is refused and changes nothing."""
    what, with_what = step
    match what:
        case "add":
            office.apply(declared(text=TEXTS[with_what]))
        case "rename":
            office.apply(declared(name="b", text=TEXTS[with_what]))
        case "remove":
            office.apply()
        case "work":
            office.work(office.now + with_what)
        case "stall":
            office.now += with_what
        case "sweep":
            office.drop()
        case "pause":
            refused(office, "job-pause", until_ms=office.now + with_what)
        case _:
            refused(office, what)


def refused(office: Office, operation: str, **rest: Any) -> None:
    """Performs it on each job there may be."""
    for name in ("a", "b"):
        try:
            office.perform(operation, job=name, **rest)
        except CronpadError:
            continue


STEPS = st.one_of(
    st.tuples(st.sampled_from(["add", "add", "rename"]), st.integers(0, len(TEXTS) - 1)),
    st.tuples(st.sampled_from(["work", "stall"]), st.integers(1, 40 * S)),
    st.tuples(st.just("pause"), st.integers(1, 60 * S)),
    st.tuples(st.sampled_from(["job-resume", "trigger", "remove", "sweep"]), st.none()),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=14))
def test_any_sequence_leaves_a_clean_ledger(steps: list[tuple[str, Any]]) -> None:
    """Edits, pauses, resumes, renames, removals and adding again, between work and stalls: the audit finds nothing."""
    office = Office()
    office.apply(declared())
    for step in steps:
        do(office, step)
    office.work(office.now + LONG)
    assert office.findings() == []


@pytest.mark.parametrize(
    ("steps", "slots"),
    [
        ([("add", 0), ("pause", 900 * S), ("work", 20 * S), ("job-resume", None)], [10, 20, 50, 60]),
        ([("pause", 900 * S), ("add", 1), ("work", 10 * S), ("job-resume", None)], [10, 20, 42, 49]),
        ([("remove", None), ("work", 10 * S), ("add", 0)], [10, 20, 40, 50]),
        ([("pause", 900 * S), ("remove", None), ("add", 0)], [10, 20, 30, 40]),
        ([("rename", 0), ("work", 10 * S), ("add", 0)], [10, 20, 40, 50]),
        ([("add", 2), ("add", 0), ("pause", 1), ("job-resume", None), ("job-resume", None)], [10, 20, 30, 40]),
        ([("stall", 17 * S), ("pause", 900 * S), ("job-resume", None)], [10, 20, 50, 60]),
    ],
)
def test_sequences_run_the_slots_that_people_expect(office: Office, steps: list[tuple[str, Any]], slots: list[float]) -> None:
    """From the 25th second on: what was paused, removed or another schedule's does not run, what is to come does."""
    office.apply(declared())
    office.work(T0 + 25 * S)
    for step in steps:
        do(office, step)
    office.work(office.now + 20 * S)
    assert office.slots() == slots
    office.work(office.now + LONG)
    assert office.findings() == []
