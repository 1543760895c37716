"""The one entry: a schedule text, or several, becomes a schedule, or a refusal that helps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from functools import lru_cache
from typing import Final, NoReturn

from cronpad_core.domain.errors import ScheduleError
from cronpad_core.schedules.changes import FoldRule, GapRule, parse_dst
from cronpad_core.schedules.cron import ALIASES, parse_cron
from cronpad_core.schedules.interval import IntervalSchedule, parse_interval
from cronpad_core.schedules.moments import to_ms
from cronpad_core.schedules.once import OneShotSchedule, parse_once, place_once
from cronpad_core.schedules.recurring import CronSchedule
from cronpad_core.schedules.timeline import Timeline
from cronpad_core.schedules.union import UnionSchedule
from cronpad_core.schedules.zones import forget_zones, load_zone

__all__ = ["forget_zone_rules", "parse_schedule"]

_BLANKS: Final = " \t\r\n\f\v"
_LONGEST: Final = 4096
_DRAWN: Final = re.compile(r"~|(?<![A-Za-z])[Hh](?![A-Za-z])")


def forget_zone_rules() -> None:
    """Lets everything be read anew that depends on the time-zone data; schedules that somebody holds stay as they are."""
    _cached.cache_clear()
    forget_zones()


def parse_schedule(
    text: str | Sequence[str],
    *,
    timezone: str = "UTC",
    job_id: str | None = None,
    anchor: datetime | None = None,
    dst: Mapping[str, str] | str | None = None,
) -> Timeline:
    """Parse a schedule text, or a list of texts whose union is meant; raises ``ScheduleError``.

    ``job_id`` is the seed of H and ``~``: equal ids give equal values, in every process and version. Where ``~`` is to be drawn
    anew for each version of a job, pass ``f"{job_id}\\0{version}"``: H reads the part before the NUL only, ``~`` all of it.
    ``anchor`` is the aware instant that intervals count from (the Unix epoch if absent). ``dst`` is ``None`` or ``"cron"`` for
    the rules of cron(8), or a mapping with ``gap`` (``run_after``, ``skip``, ``shift``) and ``fold`` (``first``, ``last``,
    ``both``); a rule given so holds for wildcard jobs too, a missing one is cron's.

    The result is immutable and may be shared: equal calls may return the same object.
    """
    gap, fold = parse_dst(dst)
    anchor_ms = 0 if anchor is None else to_ms(anchor)
    if isinstance(text, str):
        return _parse_one(text, timezone, job_id, anchor_ms, gap, fold)
    if not text:
        raise ScheduleError("The list of schedules is empty. Write at least one text, for example '0 9 * * 1-5'.", code="empty")
    members: list[Timeline] = []
    for at, one in enumerate(text, 1):
        try:
            members.append(_parse_one(one, timezone, job_id, anchor_ms, gap, fold))
        except ScheduleError as error:
            if len(text) > 1 and error.field != "timezone":
                error.hint = f"This is text {at} of {len(text)}: '{one}'."
            raise
    if len(members) == 1:
        return members[0]
    return UnionSchedule(members=tuple(members), timezone=timezone, zone=load_zone(timezone))


def _parse_one(
    text: str, timezone: str, job_id: str | None, anchor_ms: int, gap: GapRule | None, fold: FoldRule | None
) -> Timeline:
    # The seed is part of the key only where something is drawn, so that a thousand jobs with one text share one schedule.
    seed = job_id if _DRAWN.search(text) else ""
    return _cached(text, timezone, seed, anchor_ms, gap, fold)


@lru_cache(maxsize=4096)
def _cached(text: str, timezone: str, seed: str | None, anchor_ms: int, gap: GapRule | None, fold: FoldRule | None) -> Timeline:
    zone = load_zone(timezone)
    body = text.strip(_BLANKS)
    if not body:
        message = (
            "The schedule is empty. Write five fields (minute hour day-of-month month day-of-week), an alias such as @daily, "
            "'every 30s', or 'at 2026-12-24T18:00'."
        )
        raise ScheduleError(message, code="empty")
    if len(body) > _LONGEST:
        message = f"The schedule is {len(body)} characters long; at most {_LONGEST} are allowed."
        raise ScheduleError(message, code="too-long", token=body[:40])
    words = _split(body)
    match words[0].lower():
        # Two words such as "every monday" are somebody's guess at cron, and are answered as such.
        case "every" if len(words) != 2 or not words[1].isalpha():
            every_ms = parse_interval(body[5:]) * 1000
            return IntervalSchedule(text=text, timezone=timezone, zone=zone, every_ms=every_ms, anchor_ms=anchor_ms)
        case "at":
            at_ms, note = place_once(parse_once(body[2:]), zone, gap, fold)
            return OneShotSchedule(text=text, timezone=timezone, zone=zone, at_ms=at_ms, note=note)
        case _:
            cron = parse_cron(_cron_body(body, words), seed=seed)
            return CronSchedule(text=text, timezone=timezone, zone=zone, cron=cron, gap=gap, fold=fold)


def _split(body: str) -> list[str]:
    """Split on ASCII blanks only: what Unicode calls a space is an odd character here, and is refused by name."""
    return [word for word in re.split(r"[ \t\r\n\f\v]+", body) if word]


def _cron_body(body: str, words: list[str]) -> str:
    if words[0].upper().startswith(("TZ=", "CRON_TZ=")):
        _refuse_zone_prefix(words)
    if body[0] != "@":
        return " ".join(words)
    alias = words[0].lower()
    if alias == "@reboot":
        message = "@reboot names no time, so it has no next run. Start such a command from the service manager instead."
        raise ScheduleError(message, code="alias-reboot", token=body)
    if alias == "@every":
        mended = " ".join(["every", *words[1:]]) if len(words) > 1 else "every 90s"
        message = f"@every is not an alias here. Did you mean '{mended}'?"
        raise ScheduleError(message, code="alias-every", token=body, suggestion=mended)
    if alias not in ALIASES:
        _refuse_alias(body, alias)
    if len(words) > 1:
        message = f"{words[0]} stands alone; nothing may follow it (found '{' '.join(words[1:])}')."
        raise ScheduleError(message, code="alias-extra", token=body, suggestion=alias)
    return ALIASES[alias]


def _refuse_zone_prefix(words: list[str]) -> NoReturn:
    name = words[0].partition("=")[2] or "the zone"
    rest = " ".join(words[1:])
    keep = f" and keep '{rest}' as the schedule" if rest else ""
    message = f"The time zone does not go inside the schedule. Put {name} in the job's timezone setting{keep}."
    raise ScheduleError(message, code="tz-prefix", token=words[0], suggestion=rest or None)


def _refuse_alias(body: str, alias: str) -> NoReturn:
    near = get_close_matches(alias, ALIASES, n=1, cutoff=0.7)
    mended = f" Did you mean {near[0]}?" if near else ""
    known = "@yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly"
    message = f"Unknown alias '{body}'; known: {known}.{mended}"
    raise ScheduleError(message, code="alias-unknown", token=body, suggestion=near[0] if near else None)
