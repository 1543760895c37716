"""The rules of a job about runs at the same time, and about runs that are late: overlap, concurrency, sla."""

from __future__ import annotations

from typing import Final

from cronpad_core.config.durations import spell_duration
from cronpad_core.config.names import check_name
from cronpad_core.config.table import Table
from cronpad_core.domain.limits import ConcurrencyRule, SlaRule
from cronpad_core.domain.overlap import BOUNDED, NO_BOUND, OverlapPolicy, OverlapRule

__all__ = ["read_concurrency", "read_overlap", "read_sla"]

_ONE: Final = {
    OverlapPolicy.SKIP: '"skip" runs one at a time',
    OverlapPolicy.QUEUE_ONE: '"queue_one" lets one run wait',
    OverlapPolicy.CANCEL_RUNNING: '"cancel_running" runs one at a time, and lets the newest wait',
    OverlapPolicy.KILL_RUNNING: '"kill_running" runs one at a time, and lets the newest wait',
}


def read_overlap(table: Table, rule: OverlapRule) -> OverlapRule:
    """``overlap``: a word or a table with ``policy`` and ``max``; the table of a job may leave the policy to ``rule``."""
    if "overlap" not in table:
        return rule
    if isinstance(table.data["overlap"], str):
        policy = table.word("overlap", OverlapPolicy)
        return rule if policy is None else OverlapRule(policy=policy, max=BOUNDED.get(policy, 1))
    given = table.table("overlap", wanted="a word or a table")
    if given is None:
        return rule
    given.unknown(("policy", "max"), what="overlap")
    word, most = given.text("policy"), given.whole("max", low=1, high=NO_BOUND)
    if word is None:
        chosen = rule.policy
    elif word in tuple(OverlapPolicy):
        chosen = OverlapPolicy(word)
    else:
        given.not_one_of("overlap", word, OverlapPolicy, "policy")
        return rule
    if chosen not in BOUNDED:
        if most is not None and most > 1:
            other = "queue_all" if chosen is OverlapPolicy.QUEUE_ONE else "allow"
            hint = f'for example {{ policy = "{other}", max = {most} }}'
            given.problem("CP125", 'max goes with policy = "allow" or "queue_all" only', "max", label=_ONE[chosen], hint=hint)
        return OverlapRule(policy=chosen)
    if most is None:
        most = rule.max if rule.policy is chosen else BOUNDED[chosen]
    return OverlapRule(policy=chosen, max=most)


def read_concurrency(table: Table, rule: ConcurrencyRule | None) -> ConcurrencyRule | None:
    """``concurrency``: how many of the job's own runs, or a table with ``max`` and ``key``, each as in ``rule`` where left out."""
    if "concurrency" not in table:
        return rule
    value = table.data["concurrency"]
    if not isinstance(value, dict):
        if isinstance(value, int | float) and not isinstance(value, bool):
            most = table.whole("concurrency", low=1, high=NO_BOUND)
            return rule if most is None else ConcurrencyRule(max=most)
        table.wrong_type("concurrency", "a number of runs or a table", hint='for example concurrency = { max = 3, key = "db" }')
        return rule
    given = table.table("concurrency")
    assert given is not None
    given.unknown(("max", "key"), what="concurrency")
    most, key = given.whole("max", low=1, high=NO_BOUND), given.text("key")
    if "max" not in given and rule is None:
        given.missing("concurrency has no max", "max", ("max", "key"), hint='for example { max = 3, key = "db" }')
    if key is not None and not check_name(given, "key", key):
        return rule
    if most is None:
        if rule is None:
            return None
        most = rule.max
    return ConcurrencyRule(max=most, key=key if key is not None or rule is None else rule.key)


def read_sla(table: Table, rule: SlaRule | None) -> SlaRule | None:
    """``sla``: a table with ``start_within`` and ``finish_within``; what it leaves out stays as in ``rule``."""
    given = table.table("sla", wanted='a table such as { start_within = "30s", finish_within = "10m" }')
    if given is None:
        return rule
    known = ("start_within", "finish_within")
    given.unknown(known, what="sla")
    start, finish = given.duration("start_within", low=1), given.duration("finish_within", low=1)
    if rule is None and not any(key in given for key in known):
        hint = 'for example { start_within = "30s" }'
        given.missing("sla has neither start_within nor finish_within", "start_within", known, hint=hint)
        return None
    before = rule or SlaRule()
    start = before.start_within_ms if start is None else start
    finish = before.finish_within_ms if finish is None else finish
    if start is not None and finish is not None and finish < start:
        at = "finish_within" if "finish_within" in given else "start_within"
        label = f"{spell_duration(finish)} is less than {spell_duration(start)}; both count from when the run is due"
        given.problem("CP125", "finish_within is shorter than start_within", at, label=label)
    return SlaRule(start_within_ms=start, finish_within_ms=finish)
