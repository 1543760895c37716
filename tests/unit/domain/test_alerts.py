"""What is told of what happens: each rule of alerts, without a store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cronpad_core.domain.admission import OpenDecision, OpenKind, OpenRequest
from cronpad_core.domain.alert_cases import case_of_end, case_of_missed, case_of_opening, case_of_result
from cronpad_core.domain.alerts import AlertCase, AlertKind, AlertRule, AlertState, judge
from cronpad_core.domain.run import Attempt, AttemptStatus, Run, RunStatus, SkipReason
from cronpad_testkit.samples import T0, fence, job, key, slot, spec

K = AlertKind
RULE = AlertRule(name="on-call", events=tuple(AlertKind))


def case(*kinds: AlertKind, number: int = 0, over: tuple[AlertKind, ...] = (), period: str = "") -> AlertCase:
    return AlertCase(
        rules=(RULE,),
        job_id="job_a",
        job_name="backup",
        run_id=f"run_{number}",
        at_ms=T0 + number,
        kinds=kinds,
        over=over,
        period=period,
        reason="exit 3",
    )


def told(*cases: AlertCase, rule: AlertRule = RULE) -> list[list[str]]:
    """What each case in turn tells; what is known is kept between them, as a store keeps it."""
    state: AlertState | None = None
    found = []
    for one in cases:
        state, items = judge(one, rule, state)
        found.append([item.kind.value for item in items])
    return found


FAILS = [case(K.RUN_FAILED, number=n) for n in range(12)]
WORKS = case(K.RUN_SUCCEEDED, number=99)


def without(*kinds: AlertKind, **more: object) -> AlertRule:
    return replace(RULE, events=tuple(kind for kind in AlertKind if kind not in kinds), **more)  # type: ignore[arg-type]  # fields


def test_a_job_that_fails_each_minute_tells_once() -> None:
    """Only the first failure is a change of state; after a success the next one is again."""
    rule = without(K.RUN_SUCCEEDED)
    assert told(*FAILS[:4], WORKS, WORKS, FAILS[5], FAILS[6], rule=rule) == [
        ["run_failed"], [], [], [], ["run_recovered"], [], ["run_failed"], [],
    ]  # fmt: skip


def test_n_failures_in_a_row_tell_at_the_nth() -> None:
    """B132: with a threshold of three only the third of ten failures tells, and the success after them tells of recovery."""
    rule = without(K.RUN_SUCCEEDED, after=3)
    assert told(*FAILS[:10], WORKS, rule=rule) == [[], [], ["run_failed"], *[[]] * 7, ["run_recovered"]]


def test_a_success_in_between_begins_the_count_anew() -> None:
    """Two failures, a success and two failures are no three in a row, and nothing was told that could be over."""
    rule = without(K.RUN_SUCCEEDED, after=3)
    assert told(*FAILS[:2], WORKS, *FAILS[:2], WORKS, rule=rule) == [[]] * 6


def test_recovered_comes_only_after_failed() -> None:
    """A job that works tells of no recovery; one whose failure nobody wanted to hear of does."""
    rule = replace(RULE, events=(K.RUN_RECOVERED,))
    assert told(WORKS, FAILS[0], WORKS, WORKS, rule=rule) == [[], [], ["run_recovered"], []]


def test_each_tells_of_every_event() -> None:
    """With each, every failure from the threshold on is told, and heartbeats are anyway."""
    rule = replace(RULE, each=True, after=2)
    assert told(case(K.RUN_STARTED), *FAILS[:3], WORKS, WORKS, rule=rule) == [
        ["run_started"], [], ["run_failed"], ["run_failed"], ["run_succeeded", "run_recovered"], ["run_succeeded"],
    ]  # fmt: skip


def test_a_poisoned_run_is_told_whatever_the_threshold() -> None:
    """It counts as failing from then on: further failures are not told, the recovery is."""
    rule = without(K.RUN_SUCCEEDED, after=5)
    cases = (case(K.RUN_POISONED), case(K.RUN_POISONED), *FAILS[:9], WORKS)
    assert told(*cases, rule=rule) == [["run_poisoned"], *[[]] * 10, ["run_recovered"]]


def test_who_does_not_ask_for_poisoned_hears_of_a_failure() -> None:
    """A poisoned run has failed for good."""
    assert told(case(K.RUN_POISONED), WORKS, rule=replace(RULE, events=(K.RUN_FAILED,))) == [["run_failed"], []]


@pytest.mark.parametrize("kind", [K.RUN_LATE, K.RUN_SLOW, K.SLOT_MISSED])
def test_trouble_is_told_until_it_is_over(kind: AlertKind) -> None:
    """Late, slow and missed are told when they begin, and again only after they were over."""
    cases = (case(kind), case(kind), case(over=(kind,)), case(kind))
    assert told(*cases) == [[kind.value], [], [], [kind.value]]


def test_a_quota_is_told_once_a_month() -> None:
    """The same month tells once; the next month tells again."""
    cases = [case(K.QUOTA_EXCEEDED, period=month) for month in ("2026-01", "2026-01", "2026-02")]
    assert told(*cases) == [["quota_exceeded"], [], ["quota_exceeded"]]


def test_an_id_follows_from_what_it_is_about() -> None:
    """The same run told by the same alert has the same id; another run, kind or alert another."""
    ids = [
        judge(one, rule, None)[1][0].id
        for one, rule in (
            (FAILS[0], RULE),
            (FAILS[0], RULE),
            (FAILS[1], RULE),
            (case(K.RUN_LATE), RULE),
            (FAILS[0], replace(RULE, name="other")),
        )
    ]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 4


def test_texts_say_what_and_why() -> None:
    """The text names the job, how often, and the reason."""
    _, [first] = judge(FAILS[0], replace(RULE, after=1), None)
    state = AlertState(job_id="job_a", name="on-call", failures=2)
    after, [third] = judge(FAILS[2], replace(RULE, after=3), state)
    _, items = judge(WORKS, RULE, after)
    assert first.text == "backup failed: exit 3"
    assert third.text == "backup failed 3 times in a row: exit 3"
    assert items[-1].text == "backup has recovered after 3 failures"


# --------------------------------------------------------------------------------------------- what happened, in these words


def run(status: RunStatus = RunStatus.RUNNING, **more: object) -> Run:
    values = {"opened_at_ms": T0, "attempt": 0} | more
    return Run(
        id="run_1",
        key=key(),
        job_version=1,
        spec=spec(),
        status=status,
        fence=fence(1),
        slot_at_ms=T0,
        created_at_ms=T0,
        **values,
    )  # type: ignore[arg-type]  # fields by name


def attempt(number: int = 0) -> Attempt:
    return Attempt(
        run_id="run_1",
        attempt=number,
        fence=fence(1),
        status=AttemptStatus.FAILED,
        due_at_ms=T0,
        claimed_at_ms=T0,
        opened_at_ms=T0,
        sent_at_ms=T0 + 1,
        finished_at_ms=T0 + 51,
        reason="exit 3",
        exit_code=3,
    )


@pytest.mark.parametrize(
    ("status", "number", "broken", "kinds", "over"),
    [
        (RunStatus.SUCCEEDED, 0, [], {K.RUN_SUCCEEDED}, {K.RUN_LATE, K.RUN_SLOW, K.SLOT_MISSED}),
        (RunStatus.FAILED, 1, [], {K.RUN_FAILED}, {K.RUN_SLOW, K.SLOT_MISSED}),
        (RunStatus.UNKNOWN, 0, ["finish_within"], {K.RUN_FAILED, K.RUN_SLOW}, {K.RUN_LATE, K.SLOT_MISSED}),
        (RunStatus.CANCELLED, 1, [], set(), {K.RUN_SLOW, K.SLOT_MISSED}),
        (RunStatus.RETRYING, 0, ["start_within"], {K.RUN_LATE}, set()),
    ],
)
def test_results(status: RunStatus, number: int, broken: list[str], kinds: set[AlertKind], over: set[AlertKind]) -> None:
    """Retries within a run are no failures; a first start in time, and an end in time, end those troubles."""
    found = case_of_result((RULE,), run(), attempt(number), status, broken)
    assert found is not None
    assert (set(found.kinds), set(found.over), found.facts["exit_code"]) == (kinds, over, 3)


def test_a_retry_in_between_means_nothing() -> None:
    """A second attempt that is tried again says nothing new."""
    assert case_of_result((RULE,), run(), attempt(1), RunStatus.RETRYING, []) is None


def test_ends_without_an_attempt() -> None:
    """A run that fails at its retry deadline is a failure, a cancelled one is nothing."""
    failed = case_of_end((RULE,), run(), RunStatus.FAILED, "its retry deadline passed", T0)
    assert failed is not None
    assert failed.kinds == (K.RUN_FAILED,)
    assert case_of_end((RULE,), run(), RunStatus.CANCELLED, "its job was removed", T0) is None


def asked(*rules: AlertRule) -> OpenRequest:
    return OpenRequest(
        occurrence=slot(), spec=spec(), fence=fence(1), now_ms=T0, due_at_ms=T0, claimed_at_ms=T0, alerts=rules or (RULE,)
    )


@pytest.mark.parametrize(
    ("decision", "kinds"),
    [
        (OpenDecision(kind=OpenKind.OPENED, write=run(), run=run()), (K.RUN_STARTED,)),
        (OpenDecision(kind=OpenKind.OPENED, write=run(), run=run(), redelivery=True), None),
        (OpenDecision(kind=OpenKind.OPENED, write=run(attempt=1), run=run(attempt=1)), None),
        (OpenDecision(kind=OpenKind.OPENED, run=run()), None),
        (OpenDecision(kind=OpenKind.OPENED, write=run(), run=run(), over_quota=True), (K.RUN_STARTED, K.QUOTA_EXCEEDED)),
        (OpenDecision(kind=OpenKind.HELD, run=run()), None),
    ],
)
def test_openings(decision: OpenDecision, kinds: tuple[AlertKind, ...] | None) -> None:
    """A first start is told, a repeated, second or unchanged one is not; a quota that only warns is told beside it."""
    found = case_of_opening(asked(), decision)
    assert (None if found is None else found.kinds) == kinds


def test_openings_that_end_a_run() -> None:
    """A run that is found poisoned, or skipped for its quota, is told of; any other skip is not."""
    poisoned, full = run(RunStatus.POISONED), run(RunStatus.SKIPPED, skip_reason=SkipReason.QUOTA_EXCEEDED)
    other = run(RunStatus.SKIPPED, skip_reason=SkipReason.PREVIOUS_RUN_IN_PROGRESS)
    decisions = [
        OpenDecision(kind=OpenKind.FINISHED, write=poisoned, run=poisoned),
        OpenDecision(kind=OpenKind.SKIPPED, write=full, run=full),
        OpenDecision(kind=OpenKind.SKIPPED, write=other, run=other),
    ]
    found = [case_of_opening(asked(), one) for one in decisions]
    assert [None if one is None else one.kinds for one in found] == [(K.RUN_POISONED,), (K.QUOTA_EXCEEDED,), None]
    assert case_of_opening(asked(AlertRule(name="a")), decisions[1]) is None


def test_missed_slots() -> None:
    """Missed slots are told with how many and from when to when; none are nothing."""
    found = case_of_missed((RULE,), job(), T0, T0 + 60_000, 2, T0 + 90_000)
    assert found is not None
    assert (found.kinds, found.reason) == ((K.SLOT_MISSED,), "2 from 2026-01-01T00:00:00Z to 2026-01-01T00:01:00Z")
    assert case_of_missed((RULE,), job(), T0, T0, 0, T0) is None
    assert case_of_missed((), job(), T0, T0, 1, T0) is None
