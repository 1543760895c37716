"""The rules of a job that are a word or a table: retry, misfire, dst."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from cronpad_core.config.plugin_settings import Types, check_settings
from cronpad_core.config.table import Table
from cronpad_core.domain.misfire import MisfireRule
from cronpad_core.domain.retry import RetryRule
from cronpad_core.schedules.changes import FoldRule, GapRule

__all__ = ["MOST_RETRIES", "read_dst", "read_misfire", "read_retry"]

MOST_RETRIES: Final = 1_000_000


def read_retry(table: Table, rule: RetryRule) -> RetryRule:
    """``retry``: how many, or a table; keys that it leaves out stay as in ``rule``."""
    value = table.data.get("retry")
    if "retry" not in table:
        return rule
    if not isinstance(value, dict):
        if isinstance(value, int | float) and not isinstance(value, bool):
            most = table.whole("retry", low=0, high=MOST_RETRIES)
            return rule if most is None else replace(rule, max=most)
        table.wrong_type("retry", "a number of retries or a table", hint='for example retry = { max = 3, base = "1s" }')
        return rule
    given = table.table("retry")
    assert given is not None
    given.unknown(("max", "base", "factor", "cap", "jitter", "deadline"), what="retry")
    most = given.whole("max", low=0, high=MOST_RETRIES)
    base, cap, deadline = given.duration("base"), given.duration("cap"), given.duration("deadline", low=1)
    factor, jitter = given.number("factor", low=1, high=1000), given.number("jitter", low=0, high=1)
    return RetryRule(
        max=rule.max if most is None else most,
        base_ms=rule.base_ms if base is None else base,
        factor=rule.factor if factor is None else factor,
        cap_ms=rule.cap_ms if cap is None else cap,
        jitter=rule.jitter if jitter is None else jitter,
        deadline_ms=rule.deadline_ms if deadline is None else deadline,
    )


def read_misfire(table: Table, rule: MisfireRule, types: Types) -> MisfireRule:
    """``misfire``: a policy's name, or a table with ``policy``, ``window`` and the policy's own settings."""
    if "misfire" not in table:
        return rule
    value = table.data["misfire"]
    if isinstance(value, str):
        if value not in types.misfires:
            types.refuse(table, "misfire policy", value, types.misfires, "misfire")
            return rule
        inherited = dict(rule.settings) if value == rule.policy else {}
        model = types.misfires[value]
        if model is not None:
            check_settings(table, inherited, model, lambda path: ("misfire",), f'the misfire policy "{value}"')
        return MisfireRule(policy=value, window_ms=rule.window_ms, settings=inherited)
    given = table.table("misfire", wanted="a word or a table")
    if given is None:
        return rule
    name = given.text("policy") if "policy" in given else rule.policy
    window = given.duration("window", low=1)
    if name is None:
        return rule
    settings = {key: item for key, item in given.data.items() if key not in ("policy", "window") and not key.startswith("x-")}
    if name not in types.misfires:
        if "policy" in given:
            types.refuse(given, "misfire policy", name, types.misfires, "policy")
        return rule
    model = types.misfires[name]
    if model is None:
        given.unknown(("policy", "window"), what=f'the misfire policy "{name}"')
        settings = {}
    else:
        inherited = dict(rule.settings) if name == rule.policy else {}
        settings = {**inherited, **settings}
        check_settings(given, settings, model, lambda path: path, f'the misfire policy "{name}"')
    return MisfireRule(policy=name, window_ms=rule.window_ms if window is None else window, settings=settings)


def read_dst(table: Table, gap: str | None, fold: str | None) -> tuple[str | None, str | None]:
    """``dst``: the word ``cron``, or a table with ``gap`` and ``fold``."""
    if "dst" not in table:
        return gap, fold
    value = table.data["dst"]
    if isinstance(value, str):
        if value == "cron":
            return None, None
        table.problem("CP102", f'dst cannot be "{value[:60]}"', "dst", label='allowed: "cron", or a table with gap and fold')
        return gap, fold
    given = table.table("dst", wanted='"cron" or a table with gap and fold')
    if given is None:
        return gap, fold
    given.unknown(("gap", "fold"), what="dst")
    chosen_gap, chosen_fold = given.word("gap", GapRule), given.word("fold", FoldRule)
    return (gap if chosen_gap is None else chosen_gap.value), (fold if chosen_fold is None else chosen_fold.value)
