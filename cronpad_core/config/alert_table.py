"""A table ``[alerts.<name>]`` becomes an alert as declared: its own keys, and the settings of its emitter."""

from __future__ import annotations

from typing import Final

from cronpad_core.config.plugin_settings import Types, check_settings, warn_of_secrets
from cronpad_core.config.table import Table
from cronpad_core.domain.alerts import DEFAULT_EVENTS, AlertKind, AlertRate, AlertRule, AlertSpec
from cronpad_core.domain.timing import MINUTE, SECOND, JsonValue

__all__ = ["ALERT_KEYS", "EVENTS", "read_alert"]

ALERT_KEYS: Final = ("type", "events", "after", "each", "group_for", "rate", "every")
"""The keys that are the alert's own; the others are its emitter's."""

EVENTS: Final = tuple(kind for kind in AlertKind if kind not in (AlertKind.EMITTER_FAILING, AlertKind.TEST))
"""What an alert can be asked for."""

MOST: Final = 1_000_000


def read_alert(table: Table, name: str, types: Types, written: JsonValue) -> AlertSpec | None:
    """The alert, or ``None`` where something of it was reported. ``written``: the table before variables were filled in."""
    before = table.problems.error_count
    kind, rule = table.text("type"), _rule(table, name)
    every_ms = table.duration("every", low=SECOND)
    settings = {key: value for key, value in table.data.items() if key not in ALERT_KEYS and not key.startswith("x-")}
    if "type" not in table:
        table.problem("CP121", f'the alert "{name}" has no type', key=True)
    elif kind is not None and kind not in types.emitters:
        types.refuse(table, "alert emitter", kind, types.emitters, "type")
    elif kind is not None:
        check_settings(table, settings, types.emitters[kind], lambda path: path, f'the alert emitter "{kind}"')
        warn_of_secrets(table, written)
    if kind is None or table.problems.error_count > before:
        return None
    return AlertSpec(rule=rule, type=kind, settings=settings, alive_every_ms=MINUTE if every_ms is None else every_ms)


def _rule(table: Table, name: str) -> AlertRule:
    after, group_ms = table.whole("after", low=1, high=MOST), table.duration("group_for")
    each = table.data.get("each", False)
    if not isinstance(each, bool):
        table.wrong_type("each", "true or false")
    return AlertRule(
        name=name,
        events=_events(table),
        after=after or 1,
        each=each is True,
        group_for_ms=group_ms or 0,
        rate=_rate(table),
    )


def _events(table: Table) -> tuple[AlertKind, ...]:
    words = table.texts("events")
    if words is None:
        return DEFAULT_EVENTS
    if not words and "events" in table:
        table.problem("CP125", "events is empty", "events", label="leave it out for the usual ones")
    written = table.data["events"]
    assert isinstance(written, list), "texts answered something"
    for word in words:
        if word not in EVENTS:
            table.not_one_of("events", word, EVENTS, "events", written.index(word))
    return tuple(AlertKind(word) for word in words if word in EVENTS)


def _rate(table: Table) -> AlertRate | None:
    given = table.table("rate", wanted='a table such as { max = 10, per = "1h" }')
    if given is None:
        return None
    given.unknown(("max", "per"), what="rate")
    for key in ("max", "per"):
        if key not in given:
            given.missing(f"rate has no {key}", key, ("max", "per"), hint='write rate = { max = 10, per = "1h" }')
    most, per_ms = given.whole("max", low=1, high=MOST), given.duration("per", low=SECOND)
    return None if most is None or per_ms is None else AlertRate(max=most, per_ms=per_ms)
