"""Settings: a file, the environment, flags; the later wins, and nothing unknown is passed over."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from cronpad_core.config.settings import Settings, describe, load_settings
from cronpad_core.domain.errors import ConfigurationError


def test_defaults_are_those_of_the_list() -> None:
    """Without a file, an environment or flags each setting has the default that the list says."""
    settings = load_settings(None, {}, {})
    assert settings == Settings()
    assert {one.attribute for one in describe()} | {"plugins"} == {one.name for one in fields(Settings)}
    said = {one.name: one.default for one in describe() if one.default}
    assert load_settings(None, {}, said) == Settings()


def test_the_later_wins(tmp_path: Path) -> None:
    """Flags over environment over file."""
    path = tmp_path / "cronpad.toml"
    path.write_text(
        'shutdown_grace = "1m"\nresults_max_batch = 7\n[workers]\ncount = 3\n[scheduler]\ntick_interval = "50ms"\n'
        '[queue]\npath = "/q.db"\n[plugins.webhook]\ntimeout = "5s"\n'
    )
    environ = {"CRONPAD_WORKERS__COUNT": "5", "CRONPAD_SHUTDOWN_GRACE": "5s", "CRONPAD_STATE": "/x", "HOME": "/root"}
    settings = load_settings(path, environ, {"workers.count": 9, "delivery": "fast", "shutdown_grace": None})
    assert settings == Settings(
        workers_count=9,
        shutdown_grace_ms=5000,
        results_max_batch=7,
        scheduler_tick_interval_ms=50,
        queue_path="/q.db",
        delivery="fast",
        plugins={"webhook": {"timeout": "5s"}},
    )


def test_limits_can_be_switched_off(tmp_path: Path) -> None:
    """0 is no cap on what runs at once, and keeps the history for ever, whatever its size."""
    path = tmp_path / "cronpad.toml"
    path.write_text('[scheduler]\nmax_running = 0\nreplay_rate = 1\n[history]\nkeep_for = "0s"\nkeep_runs = 0\nkeep_mb = 0\n')
    settings = load_settings(path, {}, {})
    assert (settings.scheduler_max_running, settings.scheduler_replay_rate) == (0, 1)
    assert (settings.history_keep_for_ms, settings.history_keep_runs, settings.history_keep_mb) == (0, 0, 0)
    standard = load_settings(None, {}, {})
    assert (standard.scheduler_max_running, standard.scheduler_replay_rate) == (0, 20)
    assert standard.history_keep_for_ms == 90 * 86_400_000
    assert (standard.history_keep_runs, standard.history_keep_mb) == (10_000, 2_000)


@pytest.mark.parametrize(
    "name",
    [
        "CRONPAD_STATE",
        "CRONPAD_PLUGINS_DISABLED",
        "CRONPAD_PLUGINS__WEBHOOK__TIMEOUT",
        "CRONPAD_STRICT_PLUGINS",
        "CRONPAD_SECRET_TOKEN",
        "CRONPAD_LOG_FORMAT",
        "CRONPAD_JOB",
        "CRONPAD_RUN_ID",
        "CRONPAD_IDEMPOTENCY_KEY",
        "CRONPAD_SERVICE_HOST",
        "CRONPAD_PORT_80_TCP_ADDR",
    ],
)
def test_reserved_names_are_no_settings(name: str) -> None:
    """Variables that mean something else, or that cronpad gives its children, are passed over."""
    assert load_settings(None, {name: "x"}, {}) == Settings()


@pytest.mark.parametrize(
    ("environ", "overrides", "words"),
    [
        ({"CRONPAD_WORKER__COUNT": "1"}, {}, 'did you mean "CRONPAD_WORKERS__COUNT"?'),
        ({"CRONPAD_WORKERS__COUNT": "many"}, {}, "a whole number is needed"),
        ({"CRONPAD_WORKERS__COUNT": "0"}, {}, "0 is not in 1-100000"),
        ({"CRONPAD_SHUTDOWN_GRACE": "30"}, {}, "did you mean 30s?"),
        ({"CRONPAD_DELIVERY": "quick"}, {}, "allowed: durable, fast"),
        ({}, {"workers.cout": 1}, 'did you mean "workers.count"?'),
        ({}, {"workers.count": True}, "a whole number is needed"),
        ({}, {"scheduler.lease_duration": "1s"}, "at least 3000ms"),
        ({"CRONPAD_SCHEDULER__REPLAY_RATE": "0"}, {}, "0 is not in 1-10000"),
        ({"CRONPAD_SCHEDULER__MAX_RUNNING": "-1"}, {}, "a whole number is needed"),
        ({"CRONPAD_HISTORY__KEEP_FOR": "90"}, {}, "did you mean 90s?"),
        ({"CRONPAD_HISTORY__KEEP": "90d"}, {}, 'did you mean "CRONPAD_HISTORY__KEEP_'),
        ({}, {"history.keep_runs": "all"}, "a whole number is needed"),
    ],
)
def test_bad_values(environ: dict[str, str], overrides: dict[str, object], words: str) -> None:
    """A bad or unknown setting is refused with where it came from."""
    with pytest.raises(ConfigurationError) as caught:
        load_settings(None, environ, overrides)  # type: ignore[arg-type]  # bad on purpose
    assert words in (caught.value.report or "")


def test_bad_file(tmp_path: Path) -> None:
    """Everything that is wrong in the file is reported with its place; an empty file is fine."""
    path = tmp_path / "cronpad.toml"
    path.write_text('workers = 5\nshutdown_grce = "1s"\n[scheduler]\nclaim_batch = "x"\nfoo = 1\n')
    with pytest.raises(ConfigurationError) as caught:
        load_settings(path, {}, {})
    report = caught.value.report or ""
    assert report.count("error[") == 4
    assert 'did you mean "shutdown_grace"?' in report
    assert "cronpad.toml:4:15" in report
    path.write_text("")
    assert load_settings(path, {}, {}) == Settings()
    with pytest.raises(ConfigurationError):
        load_settings(tmp_path / "none.toml", {}, {})
