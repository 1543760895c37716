"""The values that everything else is made of: occurrences, derived ids, retry rules, job specs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronpad_core.api import (
    ConcurrencyRule,
    JobSpec,
    Limit,
    MalformedMemberError,
    MisfireRule,
    Occurrence,
    OverlapPolicy,
    OverlapRule,
    RetryRule,
    RunKey,
    ScheduleSpec,
    SinkSpec,
    SlaRule,
    Trigger,
    Workspace,
    idempotency_key,
    job_id_for,
    limits_of,
    month_of,
    retry_delay_ms,
    rfc3339,
    run_id_for,
    scopes_of,
    to_ms,
)
from cronpad_core.domain.ids import digest_below
from cronpad_core.domain.timing import from_ms

SPEC = JobSpec(name="a", schedule=ScheduleSpec(texts=("* * * * *",)), sink=SinkSpec(type="command", settings={"command": "true"}))
OCCURRENCE = Occurrence(job_id="job_a", scheduled_at_ms=1_794_281_400_000, attempt=0, job_version=3, trigger=Trigger.SCHEDULED)


def test_a_member_is_written_as_the_design_says() -> None:
    """The text of a member is job, slot, attempt, version and trigger between bars."""
    assert OCCURRENCE.member == "job_a|1794281400000|0|3|s"
    assert Occurrence.parse(OCCURRENCE.member) == OCCURRENCE


@given(
    st.from_regex(r"[A-Za-z0-9_.:-]{1,40}", fullmatch=True),
    st.integers(-(2**45), 2**45),
    st.integers(0, 99),
    st.integers(1, 10**6),
    st.sampled_from(Trigger),
)
def test_every_occurrence_is_read_back(job_id: str, slot: int, attempt: int, version: int, trigger: Trigger) -> None:
    """Parsing undoes writing."""
    occurrence = Occurrence(job_id=job_id, scheduled_at_ms=slot, attempt=attempt, job_version=version, trigger=trigger)
    assert Occurrence.parse(occurrence.member) == occurrence


@given(st.text(alphabet="job_a|0123smrb-+ ١\n", max_size=40))
def test_what_is_no_member_is_refused(text: str) -> None:
    """Any text is either exactly what an occurrence writes, or refused with the one error for it."""
    try:
        occurrence = Occurrence.parse(text)
    except MalformedMemberError:
        return
    assert occurrence.member == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a|1|0|1",
        "a|1|0|1|x",
        "a|+1|0|1|s",
        "a|01|0|1|s",
        "a|1|-1|1|s",
        "a|1|0|0|s",
        "|1|0|1|s",
        "a|1|0|1|s|",
        f"a|{2**63}|0|1|s",
    ],
)
def test_near_misses_are_refused(text: str) -> None:
    """A member that is almost one is not repaired by guessing."""
    with pytest.raises(MalformedMemberError):
        Occurrence.parse(text)


def test_derived_ids_never_change() -> None:
    """Ids are promises to receivers and to histories: these texts are frozen."""
    key = RunKey(job_id="job_a", scheduled_at_ms=1_794_281_400_000, trigger=Trigger.SCHEDULED)
    assert job_id_for("/etc/jobs.toml", "backup") == "job_7ijx3tz6usgpc36ytvjnqjysf3"
    assert run_id_for(key) == "run_rexc37sjr5x4sacdi7ltsgnun6"
    assert idempotency_key(key) == "cp_y3h3ndwo37naaziurrmhkkcr4x"
    assert "." not in idempotency_key(key)


def test_only_the_first_scheduled_attempt_is_a_slot() -> None:
    """Retries and manual runs move no schedule."""
    assert OCCURRENCE.is_slot
    assert not OCCURRENCE.with_attempt(1).is_slot
    assert not replace(OCCURRENCE, trigger=Trigger.MANUAL).is_slot


@given(st.integers(1, 10**7), st.integers(0, 10**13))
def test_jitter_lies_below_its_bound_and_depends_on_the_slot_alone(bound: int, slot: int) -> None:
    """The same slot has the same jitter under every version and attempt, in [0, bound)."""
    occurrence = replace(OCCURRENCE, scheduled_at_ms=slot)
    jitter = digest_below(bound, occurrence)
    assert 0 <= jitter < bound
    assert digest_below(bound, replace(occurrence, job_version=9, attempt=2)) == jitter


def test_jitter_never_reaches_the_next_slot() -> None:
    """A start is delayed by offset and jitter, and always before the slot that follows."""
    spec = replace(SPEC, jitter_ms=10**9, offset_ms=5_000)
    for number in range(200):
        slot = replace(OCCURRENCE, scheduled_at_ms=number * 60_000)
        start = spec.start_at_ms(slot, (number + 1) * 60_000)
        assert slot.scheduled_at_ms <= start < (number + 1) * 60_000
    assert SPEC.start_at_ms(OCCURRENCE, None) == OCCURRENCE.scheduled_at_ms


def test_the_runners_back_off() -> None:
    """100 ms doubled for each attempt, 30 s at most."""
    delays = [retry_delay_ms(RetryRule(max=20), OCCURRENCE.with_attempt(attempt)) for attempt in range(1, 12)]
    assert delays == [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]


def test_retry_after_is_obeyed_up_to_an_hour() -> None:
    """What the receiver asks for counts where it is longer, and not for ever."""
    first = OCCURRENCE.with_attempt(1)
    assert retry_delay_ms(RetryRule(), first, retry_after_ms=5_000) == 5_000
    assert retry_delay_ms(RetryRule(), first, retry_after_ms=10**9) == 3_600_000
    assert retry_delay_ms(RetryRule(base_ms=9_000), first, retry_after_ms=5_000) == 9_000


@given(st.integers(1, 2_000), st.floats(1, 10), st.floats(0, 1))
def test_no_delay_is_beyond_its_bounds(attempt: int, factor: float, jitter: float) -> None:
    """However often it is tried, the delay is at most the cap and its share of jitter."""
    rule = RetryRule(max=3_000, factor=factor, jitter=jitter)
    assert 0 <= retry_delay_ms(rule, OCCURRENCE.with_attempt(attempt)) <= 30_000 * (1 + jitter) + 1


def test_a_spec_survives_json() -> None:
    """What is stored of a job is read back equal, nested rules included."""
    spec = replace(
        SPEC,
        retry=RetryRule(max=2, jitter=0.5, deadline_ms=10),
        overlap=OverlapRule(policy=OverlapPolicy.ALLOW, max=4),
        misfire=MisfireRule(policy="all", settings={"max": 7}),
        concurrency=ConcurrencyRule(max=3, key="db"),
        sla=SlaRule(finish_within_ms=5_000),
        tags=("x", "y"),
    )
    assert JobSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_the_caps_of_a_run() -> None:
    """From the widest to the narrowest: of everything, of its workspace, and of its job, or of a key in the job's place."""
    blue = Workspace(name="blue", concurrency=2)
    own, shared = ConcurrencyRule(max=1), ConcurrencyRule(max=3, key="db")
    everything, workspace = Limit(scope="all", max=9), Limit(scope="workspace:blue", max=2)
    assert limits_of("job_a", own, blue, 9) == (everything, workspace, Limit(scope="job:job_a", max=1))
    assert limits_of("job_a", shared, blue, None) == (workspace, Limit(scope="key:db", max=3))
    assert limits_of("job_a", None, Workspace(name="red", suspended=True), None) == limits_of("job_a", None, None, None) == ()


@pytest.mark.parametrize("rule", [None, ConcurrencyRule(max=1), ConcurrencyRule(max=3, key="db")])
def test_a_run_counts_for_every_cap_that_it_must_find_room_under(rule: ConcurrencyRule | None) -> None:
    """A run's scopes have all those of its own caps, and those that other runs of its workspace or job are capped by."""
    scopes = scopes_of("job_a", "blue", rule)
    assert {"all", "workspace:blue", "job:job_a"} <= set(scopes)
    assert {limit.scope for limit in limits_of("job_a", rule, Workspace(name="blue", concurrency=2), 9)} <= set(scopes)
    assert len(scopes) == len(set(scopes)) == (4 if rule and rule.key else 3)


def test_months_are_those_of_utc() -> None:
    """A month begins and ends at midnight of UTC, to the millisecond."""
    begins = to_ms(datetime(2026, 3, 1, tzinfo=UTC))
    assert (month_of(begins - 1), month_of(begins), month_of(begins + 30 * 86_400_000)) == ("2026-02", "2026-03", "2026-03")


@pytest.mark.parametrize(
    ("policy", "running", "waiting", "replaces"),
    [
        (OverlapPolicy.SKIP, 1, 0, None),
        (OverlapPolicy.ALLOW, 4, 0, None),
        (OverlapPolicy.QUEUE_ONE, 1, 1, None),
        (OverlapPolicy.QUEUE_ALL, 1, 4, None),
        (OverlapPolicy.CANCEL_RUNNING, 1, 0, "stop"),
        (OverlapPolicy.KILL_RUNNING, 1, 0, "kill"),
    ],
)
def test_overlap_rules(policy: OverlapPolicy, running: int, waiting: int, replaces: str | None) -> None:
    """``max`` says how many run under one policy, how many wait under another, and nothing under the rest."""
    rule = OverlapRule(policy=policy, max=4)
    assert (rule.limit, rule.waiting, rule.replaces) == (running, waiting, replaces)


@given(st.integers(-(10**13), 10**14))
def test_instants_are_read_back(instant: int) -> None:
    """Milliseconds to a datetime and back lose nothing."""
    assert to_ms(from_ms(instant)) == instant


def test_instants_are_shown_as_rfc_3339() -> None:
    """With milliseconds only where there are some."""
    assert rfc3339(1_794_281_400_000) == "2026-11-10T03:30:00Z"
    assert rfc3339(1_250) == "1970-01-01T00:00:01.250Z"
    assert rfc3339(None) is None
