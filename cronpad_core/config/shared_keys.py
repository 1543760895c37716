"""The keys that ``[defaults]`` and a job have in common, read by the same code; a job starts from what the defaults say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from cronpad_core.config.limit_rules import read_concurrency, read_overlap, read_sla
from cronpad_core.config.names import check_workspace
from cronpad_core.config.plugin_settings import Types
from cronpad_core.config.rules import read_dst, read_misfire, read_retry
from cronpad_core.config.table import Table
from cronpad_core.domain.errors import ScheduleError
from cronpad_core.domain.job import Guarantee
from cronpad_core.domain.limits import ConcurrencyRule, SlaRule
from cronpad_core.domain.misfire import MisfireRule
from cronpad_core.domain.overlap import OverlapRule
from cronpad_core.domain.retry import RetryRule
from cronpad_core.domain.timing import MINUTE, Millis
from cronpad_core.schedules.zones import load_zone

__all__ = ["SHARED_KEYS", "Shared", "read_shared", "read_timezone"]

SHARED_KEYS: Final = (
    "timezone",
    "dst",
    "timeout",
    "kill_grace",
    "retry",
    "overlap",
    "concurrency",
    "misfire",
    "jitter",
    "offset",
    "grace",
    "guarantee",
    "sla",
    "tags",
    "alerts",
    "workspace",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The values of the shared keys; ``None`` for what nobody set and what has no default of its own."""

    timezone: str | None = None
    gap: str | None = None
    fold: str | None = None
    timeout_ms: Millis | None = None
    kill_grace_ms: Millis = 10_000
    retry: RetryRule = field(default_factory=RetryRule)
    overlap: OverlapRule = field(default_factory=OverlapRule)
    concurrency: ConcurrencyRule | None = None
    misfire: MisfireRule = field(default_factory=MisfireRule)
    jitter_ms: Millis = 0
    offset_ms: Millis = 0
    grace_ms: Millis = MINUTE
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    sla: SlaRule | None = None
    tags: tuple[str, ...] = ()
    alerts: tuple[str, ...] = ()
    workspace: str = "default"


def read_shared(table: Table, base: Shared, types: Types) -> Shared:
    """The table's values over those of ``base``."""
    gap, fold = read_dst(table, base.gap, base.fold)
    timeout = table.duration("timeout", low=1)
    kill_grace, jitter, offset, grace = (table.duration(key) for key in ("kill_grace", "jitter", "offset", "grace"))
    tags, alerts = table.texts("tags"), table.texts("alerts")
    workspace = table.text("workspace")
    if workspace is not None and not check_workspace(table, "workspace", workspace):
        workspace = None
    return Shared(
        timezone=read_timezone(table) or base.timezone,
        gap=gap,
        fold=fold,
        timeout_ms=base.timeout_ms if timeout is None else timeout,
        kill_grace_ms=base.kill_grace_ms if kill_grace is None else kill_grace,
        retry=read_retry(table, base.retry),
        overlap=read_overlap(table, base.overlap),
        concurrency=read_concurrency(table, base.concurrency),
        misfire=read_misfire(table, base.misfire, types),
        jitter_ms=base.jitter_ms if jitter is None else jitter,
        offset_ms=base.offset_ms if offset is None else offset,
        grace_ms=base.grace_ms if grace is None else grace,
        guarantee=table.word("guarantee", Guarantee) or base.guarantee,
        sla=read_sla(table, base.sla),
        tags=base.tags if tags is None else tags,
        alerts=base.alerts if alerts is None else alerts,
        workspace=workspace or base.workspace,
    )


def read_timezone(table: Table) -> str | None:
    """The name of a zone that exists, or ``None``."""
    name = table.text("timezone")
    if name is None:
        return None
    try:
        load_zone(name)
    except ScheduleError as error:
        message = error.message.partition(" Did you mean")[0].rstrip(".")
        hint = f'did you mean "{error.suggestion}"?' if error.suggestion else None
        table.problem("CP102", message[:1].lower() + message[1:], "timezone", within=(0, len(name)), raw=name, hint=hint)
        return None
    return name
