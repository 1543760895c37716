"""Floor 2: schedule texts and when they are due. croniter lives in ``cron``, everything about time and zones is ours."""

from __future__ import annotations

from cronpad_core.schedules.facts import ScheduleFacts
from cronpad_core.schedules.text import forget_zone_rules, parse_schedule
from cronpad_core.schedules.timeline import Timeline

__all__ = ["ScheduleFacts", "Timeline", "forget_zone_rules", "parse_schedule"]
