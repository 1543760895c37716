"""``cronpad explain``."""

from __future__ import annotations

from contextlib import suppress

import click

from cronpad_core.cli.invocation import Invocation
from cronpad_core.cli.output import Output, Styled
from cronpad_core.cli.schedule_text import fires_of, parse_text, print_fires, start_of
from cronpad_core.domain.timing import JsonValue
from cronpad_core.schedules import ScheduleFacts, Timeline

__all__ = ["command"]


@click.command()
@click.argument("text", nargs=-1, required=True)
@click.option("-n", "--count", type=click.IntRange(0, 1000), default=5, show_default=True, help="How many fires to show.")
@click.option("--tz", default="UTC", show_default=True, help="Time zone of the schedule.")
@click.option("--after", metavar="TIME", help="Show the fires after this time instead of now.")
@click.option("--job-id", help="The job that H and ~ are drawn for.")
@click.pass_obj
def command(invocation: Invocation, text: tuple[str, ...], count: int, tz: str, after: str | None, job_id: str | None) -> None:
    """What the schedule TEXT means: its fields, which day rule holds, what clock changes do, and its next fires."""
    out = Output(invocation)
    given = " ".join(text)
    schedule = parse_text(given, timezone=tz, job_id=job_id)
    facts = schedule.facts()
    words = _words(facts)
    now_ms = invocation.now_ms()
    fires = tuple(fires_of(schedule, start_of(after, schedule, now_ms), count))
    if out.wants_json:
        out.document("explain", [_document(given, schedule, facts, words)], fires=[fire.to_json() for fire in fires])
        return
    out.line(Styled(given, "strong"), f"   {facts.kind}, time zone {schedule.timezone}")
    if words:
        out.line(words)
    if facts.fields:
        out.line()
        out.table(("field", "value"), facts.fields)
    out.line()
    for sentence in facts.sentences:
        out.line(f"- {sentence}")
    for warning in schedule.warnings:
        out.line("- ", Styled("warning:", "warn"), f" {warning}")
    if fires:
        out.line()
        print_fires(out, fires, now_ms if after is None else None)
    elif count:
        out.line(Styled("It never fires again.", "warn"))


def _document(text: str, schedule: Timeline, facts: ScheduleFacts, words: str | None) -> dict[str, JsonValue]:
    return {
        "text": text,
        "timezone": schedule.timezone,
        "kind": facts.kind,
        "in_words": words,
        "fields": dict(facts.fields),
        "day_rule": facts.day_rule,
        "clock_rule": facts.clock_rule,
        "gap": facts.gap,
        "fold": facts.fold,
        "every_ms": facts.every_ms,
        "sentences": list(facts.sentences),
        "warnings": list(schedule.warnings),
    }


def _words(facts: ScheduleFacts) -> str | None:
    """The cron text in an English sentence, or ``None`` where the library that says it would say something else than holds."""
    values = dict(facts.fields)
    both_restricted = not {"*", "?"} & {values.get("day-of-month", "*"), values.get("day-of-week", "*")}
    if facts.kind != "cron" or both_restricted or any(set("#~").intersection(value) for value in values.values()):
        return None
    with suppress(Exception):  # it is a courtesy: the facts below say the same
        from cron_descriptor import ExpressionDescriptor  # type: ignore[import-untyped]  # it ships no types

        # With seconds and years it takes all seven fields, so none is guessed from their number.
        order = ("second", "minute", "hour", "day-of-month", "month", "day-of-week", "year")
        missing = {"second": "0", "year": "*"}
        text = " ".join(values.get(name, missing.get(name, "*")) for name in order)
        return f"{ExpressionDescriptor(text).get_description()}."
    return None
