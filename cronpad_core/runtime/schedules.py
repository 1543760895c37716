"""Reading stored schedules, once each."""

from __future__ import annotations

from collections import OrderedDict

from cronpad_core.domain.job import ScheduleSpec
from cronpad_core.domain.timing import from_ms
from cronpad_core.ports.schedule import Schedule
from cronpad_core.schedules import Timeline, forget_zone_rules, parse_schedule

__all__ = ["ScheduleBook", "read_schedule"]


def read_schedule(job_id: str, version: int, spec: ScheduleSpec) -> Timeline:
    """The schedule of a job version. ``H`` depends on the job alone, ``~`` is drawn once per version. Raises ``ScheduleError``."""
    dst = {key: value for key, value in (("gap", spec.gap), ("fold", spec.fold)) if value is not None}
    return parse_schedule(
        spec.texts if len(spec.texts) > 1 else spec.texts[0],
        timezone=spec.timezone,
        job_id=f"{job_id}\0{version}",
        anchor=None if spec.anchor_ms is None else from_ms(spec.anchor_ms),
        dst=dst or None,
    )


class ScheduleBook:
    """A :class:`~cronpad_core.ports.schedule.ScheduleReader` that remembers the newest ``size`` job versions."""

    def __init__(self, size: int = 20_000) -> None:
        self._size = size
        self._read: OrderedDict[tuple[str, int, ScheduleSpec], Schedule] = OrderedDict()

    def __call__(self, job_id: str, version: int, spec: ScheduleSpec) -> Schedule:
        """The schedule of a job version. Raises ``ScheduleError``."""
        key = job_id, version, spec
        schedule = self._read.get(key)
        if schedule is None:
            schedule = self._read[key] = read_schedule(job_id, version, spec)
            if len(self._read) > self._size:
                self._read.popitem(last=False)
        return schedule

    def forget(self) -> None:
        """Lets every schedule be read anew, by the time-zone data of now."""
        forget_zone_rules()
        self._read.clear()
