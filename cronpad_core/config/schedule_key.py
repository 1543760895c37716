"""The ``schedule`` of a job: a text, a list of texts or a table; a refusal is shown under the part that is meant."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from cronpad_core.config.document import Span
from cronpad_core.config.rules import read_dst
from cronpad_core.config.shared_keys import Shared, read_timezone
from cronpad_core.config.table import Table, kind_of
from cronpad_core.domain.errors import ScheduleError
from cronpad_core.domain.job import ScheduleSpec
from cronpad_core.schedules import Timeline, parse_schedule
from cronpad_core.schedules.fields import FIELDS

__all__ = ["read_schedule"]

_KINDS: Final = ("cron", "every", "at", "text")
_ALLOWED: Final = "; allowed: "
_MEANT: Final = re.compile(r" ?Did you mean [^?]+\?")
# Whether a schedule ever fires must not depend on the present time: it is asked from one fixed instant, both ways.
_FIXED_MS: Final = 1_767_225_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    """One schedule text and where it stands; its first ``added`` characters are ours, not the file's."""

    text: str
    at: tuple[str | int, ...]
    added: int = 0


def read_schedule(job: Table, shared: Shared, job_id: str, known: Collection[str]) -> ScheduleSpec | None:
    """The schedule as declared, or ``None`` after its problems were reported.

    ``job_id`` is what ``H`` is drawn from; ``known`` are the keys that a job can have.
    """
    if "schedule" not in job:
        job.missing("the job has no schedule", "schedule", known, hint='for example schedule = "*/5 * * * *"')
        return None
    value = job.data["schedule"]
    timezone, gap, fold = shared.timezone, shared.gap, shared.fold
    if isinstance(value, dict):
        table = job.table("schedule")
        assert table is not None
        table.unknown((*_KINDS, "timezone", "dst"), what="schedule")
        timezone = read_timezone(table) or timezone
        gap, fold = read_dst(table, gap, fold)
        texts = [text for kind in _KINDS if kind in table for text in _texts(job, table.data[kind], ("schedule", kind), kind)]
        if not any(kind in table for kind in _KINDS):
            job.problem("CP121", "the schedule names no times", "schedule", hint=f"it needs one of {', '.join(_KINDS)}")
    else:
        texts = _texts(job, value, ("schedule",), "text")
    zone = timezone or "UTC"
    dst = {name: rule for name, rule in (("gap", gap), ("fold", fold)) if rule is not None} or None
    parsed = [_parse(job, text, zone, dst, job_id) for text in texts]
    if not texts or None in parsed:
        return None
    _check_fires(job, texts, [timeline for timeline in parsed if timeline is not None], explicit=dst is not None)
    return ScheduleSpec(texts=tuple(text.text for text in texts), timezone=zone, gap=gap, fold=fold)


def _texts(job: Table, value: object, at: tuple[str | int, ...], kind: str) -> list[_Text]:
    items = value if isinstance(value, list) else [value]
    if not items:
        job.problem("CP102", "the schedule is an empty list", *at, hint='for example ["0 9 * * 1-5", "0 11 * * 6"]')
    found: list[_Text] = []
    for index, item in enumerate(items):
        place = (*at, index) if isinstance(value, list) else at
        if not isinstance(item, str):
            what = "a text or a list of texts" if at[1:] or isinstance(value, list) else "a text, a list of texts or a table"
            hint = f'did you mean "{item}s"?' if kind == "every" and type(item) is int else None
            job.problem("CP120", f"the schedule must be {what}", *place, label=f"this is {kind_of(item)}", hint=hint)
            continue
        lead = f"{kind} " if kind in ("every", "at") and item.split(" ")[0].lower() != kind else ""
        found.append(_Text(text=lead + item, at=place, added=len(lead)))
    return found


def _parse(job: Table, text: _Text, zone: str, dst: dict[str, str] | None, job_id: str) -> Timeline | None:
    try:
        return parse_schedule(text.text, timezone=zone, job_id=job_id, dst=dst)
    except ScheduleError as error:
        _refuse(job, text, error, zone, job_id)
        return None


def _refuse(job: Table, text: _Text, error: ScheduleError, zone: str, job_id: str) -> None:
    span = _span(text.text, error)
    message, _, allowed = _MEANT.sub("", error.message).rstrip(".").partition(_ALLOWED)
    label = f"allowed: {allowed}" if allowed else ""
    suggestion = _suggestion(text.text, error, span)
    hint = f'did you mean "{suggestion[text.added :]}"?' if suggestion and _parses(suggestion, zone, job_id) else None
    if error.code == "out-of-range" and error.field:
        field = next(field for field in FIELDS if field.name == error.field)
        message, label = f"{error.field} is out of range", f"{error.token} is not in {field.low}-{field.high}"
        more = allowed.partition(". ")[2]
        hint = hint or _lowered(more) or None
    within = (max(0, span[0] - text.added), max(1, span[1] - text.added))
    job.problem("CP102", _lowered(message), *text.at, within=within, raw=text.text[text.added :], label=label, hint=hint)


def _span(text: str, error: ScheduleError) -> Span:
    """The characters of the text that the error means; all of it where it names no part."""
    words = list(re.finditer(r"[^ \t\r\n\f\v]+", text))
    if error.position is not None and error.position <= len(words):
        word = words[error.position - 1]
        at = word[0].find(error.token) if error.token else -1
        return (word.start() + at, word.start() + at + len(error.token)) if at >= 0 else word.span()
    at = text.lower().find(error.token.lower()) if error.token else -1
    if at >= 0:
        return at, at + len(error.token)
    return 0, max(1, len(text))


def _suggestion(text: str, error: ScheduleError, span: Span) -> str | None:
    """The whole text with the mend in it."""
    if error.code == "out-of-range":
        return _wrapped(text, error, span)
    if error.suggestion is None or error.position is None:
        return error.suggestion
    return text[: span[0]] + error.suggestion + text[span[1] :]


def _wrapped(text: str, error: ScheduleError, span: Span) -> str | None:
    """61 minutes are 1 past the hour; an hour above 24 is likely the minute, swapped."""
    if len(error.token) > 3:
        return None
    number = int(error.token)
    if (error.field in ("minute", "second") and 60 <= number < 120) or (error.field == "hour" and number == 24):
        return f"{text[: span[0]]}{number - (24 if error.field == 'hour' else 60)}{text[span[1] :]}"
    words = text.split()
    if error.field == "hour" and error.position and error.position > 1:
        at = error.position - 1
        words[at - 1], words[at] = words[at], words[at - 1]
        return " ".join(words)
    return None


def _parses(text: str, zone: str, job_id: str) -> bool:
    try:
        parse_schedule(text, timezone=zone, job_id=job_id)
    except ScheduleError:
        return False
    return True


def _check_fires(job: Table, texts: list[_Text], parsed: list[Timeline], *, explicit: bool) -> None:
    never = [text for text, timeline in zip(texts, parsed, strict=True) if not _fires(timeline)]
    for text in never:
        warning = len(never) < len(texts)
        hint = "no calendar has such a day"
        job.problem("CP103", "the schedule never fires", *text.at, warning=warning, hint=hint)
    for text, timeline in zip(texts, parsed, strict=True):
        for said in () if text in never else timeline.warnings:
            code = _code(said)
            # Whoever writes a dst rule knows of the clock change.
            if code != "CP105" or not explicit:
                message = _lowered(said.rstrip("."))
                job.problem(
                    code, message, *text.at, within=(0, len(text.text) - text.added), raw=text.text[text.added :], warning=True
                )


def _lowered(text: str) -> str:
    """As the middle of a sentence; ``H`` and other single letters stay."""
    return text[:1].lower() + text[1:] if text[1:2].islower() or text.startswith("A ") else text


def _fires(timeline: Timeline) -> bool:
    return timeline.next_after_ms(_FIXED_MS) is not None or timeline.prev_at_or_before_ms(_FIXED_MS) is not None


def _code(warning: str) -> str:
    if "larger than its range" in warning:
        return "CP106"
    return "CP104" if "day fields" in warning else "CP105"
