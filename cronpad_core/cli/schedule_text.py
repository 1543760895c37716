"""Schedule texts on the command line: parsed, or refused with a caret under what is wrong; and fires as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import click

from cronpad_core.cli.output import Cell, Output, Styled
from cronpad_core.domain.errors import ConfigurationError, ScheduleError
from cronpad_core.domain.timing import JsonValue, from_ms, to_ms
from cronpad_core.schedules import Timeline, parse_schedule

__all__ = ["Fire", "fires_of", "parse_text", "print_fires", "start_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fire:
    """One fire: in the schedule's zone, and what a clock change has to do with it."""

    at: datetime
    note: str | None

    def to_json(self) -> dict[str, JsonValue]:
        """RFC 3339 with the zone's offset, the same instant in UTC, and the note."""
        utc = self.at.astimezone(UTC).isoformat().replace("+00:00", "Z")
        return {"at": self.at.isoformat(), "utc": utc, "note": self.note}


def parse_text(text: str | Sequence[str], *, timezone: str, job_id: str | None = None) -> Timeline:
    """The schedule; raises ``ConfigurationError`` whose report shows the place and the mend."""
    try:
        return parse_schedule(text, timezone=timezone, job_id=job_id)
    except ScheduleError as error:
        shown = text if isinstance(text, str) else next(iter(text), "")
        raise ConfigurationError(error.message, report=_report(shown, error), hint=error.hint) from error


def start_of(after: str | None, schedule: Timeline, now_ms: int) -> datetime:
    """The instant that fires are asked after: ``--after`` (without an offset, in the schedule's zone) or now."""
    if after is None:
        return from_ms(now_ms)
    try:
        instant = datetime.fromisoformat(after)
    except ValueError:
        raise click.BadParameter(f"{after!r} is no time; write 2026-03-29T01:30 or 2026-03-29T01:30+01:00") from None
    if instant.tzinfo is not None:
        return instant
    from cronpad_core.schedules.zones import load_zone

    return instant.replace(tzinfo=load_zone(schedule.timezone))


def fires_of(schedule: Timeline, after: datetime, count: int) -> Iterator[Fire]:
    """The next ``count`` fires, fewer where the schedule ends."""
    at = schedule.next_after(after)
    while at is not None and count > 0:
        yield Fire(at=at, note=schedule.note_for(at))
        at, count = schedule.next_after(at), count - 1


def print_fires(out: Output, fires: Sequence[Fire], now_ms: int | None, *, named: Sequence[str] | None = None) -> None:
    """A table of fires, with how long it is until each if ``now_ms`` is given; with ``named``, the job of each in front."""
    noted = any(fire.note for fire in fires)
    head = [] if named is None else ["job"]
    distance = [] if now_ms is None else ["in"]
    columns = [*head, "at", "day", *distance, *(["clock change"] if noted else [])]
    rows: list[list[Cell]] = []
    for index, fire in enumerate(fires):
        row: list[Cell] = [] if named is None else [Styled(named[index], "strong")]
        row += [fire.at.isoformat(sep=" "), fire.at.strftime("%a")]
        if now_ms is not None:
            row.append(_distance(to_ms(fire.at) - now_ms))
        rows.append([*row, Styled(fire.note or "", "warn")] if noted else row)
    out.table(columns, rows)


def _distance(ms: int) -> str:
    """``2 d 4 h``: the two largest units."""
    if ms < 0:
        return "past"
    parts, left = [], ms // 1000
    for seconds, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        if left >= seconds:
            parts.append(f"{left // seconds} {unit}")
            left %= seconds
    return " ".join(parts[:2]) or "now"


def _report(text: str, error: ScheduleError) -> str:
    where = f" ({error.field})" if error.field and error.field not in error.message else ""
    lines = [f"error: {error.message}{where}"]
    column = _column_of(text, error)
    if text.strip() and column is not None:
        lines += [f"  {text}", f"  {' ' * column}{'^' * max(1, len(error.token))}"]
    if error.suggestion and error.suggestion not in error.message:
        lines.append(f"  did you mean '{error.suggestion}'?")
    return "\n".join(lines)


def _column_of(text: str, error: ScheduleError) -> int | None:
    """Where the token stands: inside the field that it belongs to, if the error says which."""
    if not error.token or "\n" in text or error.field == "timezone":
        return None
    start = 0
    if error.position is not None:
        for _ in range(error.position - 1):
            while start < len(text) and text[start] in " \t":
                start += 1
            while start < len(text) and text[start] not in " \t":
                start += 1
    found = text.find(error.token, start)
    return None if found < 0 else found
