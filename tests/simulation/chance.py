"""What a storm is made of, drawn from its seed: jobs, what their sinks do, and the engine's figures."""

from __future__ import annotations

import random
from dataclasses import replace

from jobs import declare
from world import QUICK, Act

from cronpad_core.control.apply import Declared
from cronpad_core.domain.job import Guarantee
from cronpad_core.domain.limits import ConcurrencyRule
from cronpad_core.domain.outcome import Delivered, Failed, Unknown
from cronpad_core.domain.overlap import OverlapPolicy, OverlapRule
from cronpad_core.domain.retry import RetryRule
from cronpad_core.domain.tuning import Tuning

__all__ = ["any_act", "any_job", "tuning_of"]

SCHEDULES = ("every 5s", "every 7s", "every 11s", "every 23s", "*/5 * * * * *", "*/10 * * * * *", "*/30 * * * * *")


def any_job(rng: random.Random, name: str) -> Declared:
    """Any job."""
    pick = rng.choice
    retry = RetryRule(
        max=pick([0, 1, 2]), base_ms=pick([200, 2_000]), factor=2.0, jitter=pick([0, 0.5]), deadline_ms=pick([None, 30_000])
    )
    declared = declare(
        name,
        pick(SCHEDULES),
        policy=(policy := pick(["latest", "latest", "earliest", "all", "skip"])),
        misfire_settings={"max": 40} if policy == "all" else {},
        window_ms=pick([None, None, 40_000]),
        retry=retry,
        sink=pick(["script", "script", "graceful"]),
        timeout_ms=pick([3_000, 12_000, 30_000]),
        kill_grace_ms=1_000,
        grace_ms=pick([1_000, 25_000]),
        jitter_ms=pick([0, 0, 3_000]),
        offset_ms=pick([0, 0, 1_000]),
        guarantee=pick([Guarantee.AT_LEAST_ONCE] * 4 + [Guarantee.AT_MOST_ONCE]),
    )
    spec = declared.spec
    if rng.random() < 0.6:
        spec = replace(spec, overlap=OverlapRule(policy=pick(tuple(OverlapPolicy)), max=pick([1, 2, 3])))
    if rng.random() < 0.3:
        spec = replace(spec, concurrency=ConcurrencyRule(max=pick([1, 2]), key=pick([None, "key"])))
    return replace(declared, spec=spec)


def any_act(rng: random.Random, *, calm: bool) -> Act:
    """What a sink does."""
    if calm:
        return Act(for_ms=rng.choice([0, 0, 300]))
    for_ms = rng.choice([0, 0, 200, 1_500, 4_000, 9_000, 25_000, 70_000])
    luck = rng.random()
    if luck < 0.6:
        return Act(for_ms=for_ms, outcome=Delivered(), swallows=rng.random() < 0.1)
    if luck < 0.85:
        return Act(for_ms=for_ms, outcome=Failed(reason="no", undelivered=rng.random() < 0.3))
    return Act(for_ms=for_ms, outcome=rng.choice([Failed(reason="never", retryable=False), Unknown(reason="who knows")]))


def tuning_of(seed: int) -> Tuning:
    """The figures of a seed; some have tiny limits."""
    pick = random.Random(seed).choice
    return replace(
        QUICK,
        workers=pick([1, 3, 3, 8]),
        claim_batch=pick([1, 2, 5]),
        max_redeliveries=pick([2, 5, 5]),
        max_running=pick([0, 0, 0, 2]),
        fast=pick([False, False, True]),
    )
