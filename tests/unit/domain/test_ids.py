"""What derived ids and drawn delays must not do: meet, or crowd; and what one wrong bit in a queue's file can mean."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_run import FENCE, SLOT, SPEC, row

from cronpad_core.api import (
    MalformedMemberError,
    Occurrence,
    OpenKind,
    OpenRequest,
    OpenSnapshot,
    RetryPlan,
    RunStatus,
    Trigger,
    decide_open,
    idempotency_key,
    job_id_for,
    run_id_for,
)
from cronpad_core.domain.ids import digest_below

OCCURRENCES = st.builds(
    Occurrence,
    job_id=st.text(min_size=1, max_size=40).filter(lambda text: "|" not in text),
    scheduled_at_ms=st.integers(min_value=-(2**45), max_value=2**45),
    attempt=st.integers(min_value=0, max_value=10**6),
    job_version=st.integers(min_value=1, max_value=10**6),
    trigger=st.sampled_from(Trigger),
)


@given(OCCURRENCES, OCCURRENCES)
def test_ids_differ_where_runs_differ(one: Occurrence, other: Occurrence) -> None:
    """Two runs never share an id or an idempotency key; attempts and versions of one do; the two kinds are never equal."""
    same = one.key == other.key
    assert (run_id_for(one.key) == run_id_for(other.key)) == same
    assert (idempotency_key(one.key) == idempotency_key(other.key)) == same
    assert run_id_for(one.key)[4:] != idempotency_key(one.key)[3:]
    assert run_id_for(replace(one, attempt=other.attempt, job_version=other.job_version).key) == run_id_for(one.key)


@given(*[st.text(alphabet="ab/. ü", max_size=6)] * 4)
def test_job_ids_belong_to_origin_and_name(origin: str, name: str, other: str, another: str) -> None:
    """Another file or another name is another job, wherever the boundary between the two lies."""
    assert (job_id_for(origin, name) == job_id_for(other, another)) == ((origin, name) == (other, another))


@given(OCCURRENCES)
def test_ids_are_plain_words(occurrence: Occurrence) -> None:
    """Ids are short ASCII words: safe in file names, headers and members, whatever the job's id is."""
    for word in (run_id_for(occurrence.key), idempotency_key(occurrence.key), job_id_for(occurrence.job_id, "x")):
        assert word.isascii() and word.replace("_", "").isalnum() and len(word) == word.index("_") + 27


def test_jitter_spreads_evenly() -> None:
    """Over many slots the draws fill their range: each tenth gets between half and twice its share."""
    tenths = [0] * 10
    for slot in range(5_000):
        tenths[digest_below(10_000, replace(SLOT, scheduled_at_ms=slot * 60_000)) // 1_000] += 1
    assert min(tenths) > 250 and max(tenths) < 1_000


# --- one wrong bit ----------------------------------------------------------------------------------------------------------------
def _decided(occurrence: Occurrence, status: RunStatus | None, **more: object) -> OpenKind:
    request = OpenRequest(occurrence=occurrence, spec=SPEC, fence=FENCE, now_ms=61_000, due_at_ms=60_000, claimed_at_ms=60_001)
    run = None if status is None else row(status, **more)
    return decide_open(request, OpenSnapshot(run=run, running_others=0, covered=False)).kind


def _flips(member: str) -> list[Occurrence]:
    """Every occurrence that one flipped bit of a member can name."""
    raw, found = member.encode(), []
    for at in range(len(raw)):
        for bit in range(8):
            try:
                found.append(Occurrence.parse((raw[:at] + bytes([raw[at] ^ 1 << bit]) + raw[at + 1 :]).decode()))
            except (MalformedMemberError, UnicodeDecodeError):
                continue
    return found


@pytest.mark.parametrize("attempt", [0, 1])
def test_a_flipped_bit_names_another_entry_or_none(attempt: int) -> None:
    """B031: no flip of one bit reads as the same occurrence, and most are refused."""
    member = SLOT.with_attempt(attempt).member
    flips = _flips(member)
    assert flips and SLOT.with_attempt(attempt) not in flips
    assert len(flips) < len(member) * 4


def test_a_flipped_attempt_of_a_retry_is_not_delivered() -> None:
    """While a run waits for attempt 1, an entry of any other attempt is acknowledged, and the right one put in its place."""
    plan = RetryPlan(attempt=1, at_ms=99_000)
    right = SLOT.with_attempt(1)
    assert _decided(right, RunStatus.RETRYING, retry=plan) is OpenKind.OPENED
    for wrong in _flips(right.member):
        if wrong.key == SLOT.key and wrong.job_version == 1 and wrong.attempt > 0:
            assert _decided(wrong, RunStatus.RETRYING, retry=plan) is OpenKind.SUPERSEDED


@pytest.mark.parametrize("status", [RunStatus.PENDING, RunStatus.WAITING])
def test_a_run_that_was_not_opened_yet_begins_with_its_first_attempt(status: RunStatus) -> None:
    """An entry of a later attempt of a run that waits for its first one is acknowledged."""
    assert _decided(SLOT, status) is OpenKind.OPENED
    assert _decided(SLOT.with_attempt(2), status) is OpenKind.FINISHED
