"""The misfire policy ``today``."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from typing import ClassVar
from zoneinfo import ZoneInfo

from cronpad_core.api import Millis, MissedWindow, ReplayPlan, from_ms, to_ms
from cronpad_today.settings import TodaySettings

NOTHING = ReplayPlan()


class Today:
    """Every slot that was missed since the day began, oldest first; of more than ``max`` the newest alone."""

    name: ClassVar[str] = "today"
    api: ClassVar[int] = 1
    Settings: ClassVar[type[TodaySettings]] = TodaySettings

    def decide(self, window: MissedWindow) -> ReplayPlan:
        """From the first slot of the day up to the newest; none if all are of an earlier day."""
        if window.earliest_ms is None:
            return NOTHING
        settings = TodaySettings.model_validate(dict(window.rule.settings))
        oldest_ms = max(window.earliest_ms, began_ms(settings, window.now_ms))
        first_ms = window.next_after(oldest_ms - 1)
        if first_ms is None or first_ms > window.newest_ms:
            return NOTHING
        if window.count_between(first_ms - 1, window.newest_ms) > settings.max:
            first_ms = window.newest_ms
        return ReplayPlan(first_ms=first_ms, until_ms=window.newest_ms)


def began_ms(settings: TodaySettings, now_ms: Millis) -> Millis:
    """When the day of ``now_ms`` began. Before ``begins`` it is still the day before."""
    now = from_ms(now_ms).astimezone(ZoneInfo(settings.timezone))
    began = datetime.combine(now.date(), time.fromisoformat(settings.begins), now.tzinfo)
    if to_ms(began) > now_ms:
        began -= timedelta(days=1)  # by the clock on the wall: 23 or 25 hours when clocks are changed
    return to_ms(began)
