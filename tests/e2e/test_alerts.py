"""Alerts of a real runner: over ``kill -9``, with emitters that fail and hang, on the command line, and with secrets."""

from __future__ import annotations

import json
from pathlib import Path

from books import audit
from stage import Ended, Stage, processes_with, wait_until


def _told(stage: Stage, name: str = "told") -> list[str]:
    """The ids that an emitter's command wrote down."""
    place = stage.root / name
    return place.read_text(encoding="utf-8").split() if place.exists() else []


def _tells(stage: Stage, name: str = "told") -> str:
    """A command that writes an alert's id down."""
    return f'echo "$CRONPAD_ALERT_ID" >> {stage.root / name}'


def _outbox(stage: Stage) -> list[tuple[str, str, int]]:
    return stage.rows(stage.history, "SELECT name, status, tries FROM outbox ORDER BY seq")


def test_an_alert_outlives_the_runner(stage: Stage) -> None:
    """Row 11: killed after the record and before the alert left, the alert is sent once after the restart."""
    alert = {"type": "command", "command": _tells(stage), "group_for": "8s"}
    stage.declare(stage.job("bad", command="exit 3", alerts=["on-call"]), alerts={"on-call": alert})
    runner = stage.start().active()
    runner.finished("bad")
    runner.kill()
    assert _outbox(stage) == [("on-call", "pending", 0)]
    assert _told(stage) == []
    following = stage.start().active()
    wait_until(lambda: _outbox(stage) == [("on-call", "delivered", 1)], "the alert is sent")
    following.finished("bad", count=2)
    following.stop()
    assert len(_told(stage)) == 1
    assert audit(stage) == []


def test_an_alert_that_was_being_sent_is_repeated_with_its_id(stage: Stage) -> None:
    """Row 11: killed while the alert was being sent, it is sent once more, with the same id."""
    flag = stage.root / "flag"
    alert = {"type": "command", "command": f"{_tells(stage)}; test -e {flag} || sleep 600"}
    stage.declare(stage.job("bad", command="exit 3", alerts=["on-call"]), alerts={"on-call": alert})
    runner = stage.start().active()
    wait_until(lambda: _told(stage), "the alert is being sent")
    runner.kill()
    flag.touch()
    following = stage.start().active()
    wait_until(lambda: _outbox(stage) == [("on-call", "delivered", 1)], "the alert is sent")
    following.stop()
    assert len(_told(stage)) == 2
    assert len(set(_told(stage))) == 1


def test_emitters_that_fail_and_hang_delay_no_run(stage: Stage) -> None:
    """Row 84: while one emitter hangs and another fails, every slot runs; what fails twice is delivered at the third try."""
    count = stage.root / "count"
    fails = f"echo x >> {count}; test $(wc -l < {count}) -gt 2 || {{ echo no route >&2; exit 7; }}; {_tells(stage, 'fails')}"
    hangs = f"{_tells(stage, 'hangs')}; sleep 600"
    alerts = {"fails": {"type": "command", "command": fails}, "hangs": {"type": "command", "command": hangs}}
    stage.declare(stage.job("bad", command="exit 3", alerts=["fails", "hangs"]), stage.job("each"), alerts=alerts)
    runner = stage.start().active()
    wait_until(lambda: _told(stage, "hangs"), "one emitter hangs")
    told = runner.says("alert_failed", alert="fails", tries=2)
    assert told["message"].endswith("the command ended with exit 7: no route; it is tried again")
    runner.finished("each", count=len(runner.attempts("each")) + 5)
    wait_until(lambda: ("fails", "delivered", 3) in _outbox(stage), "the failing one is sent")
    assert len(_told(stage, "fails")) == 1
    listed = json.loads(stage.call("--state", stage.state, "--json", "alerts", "list", "--alert", "hangs").out)
    assert [item["state"] for item in listed["items"]] == ["pending"]
    runner.stop()
    wait_until(lambda: not processes_with(str(stage.root)), "the command that hung is gone with its runner")
    assert audit(stage) == []


def test_alerts_on_the_command_line(stage: Stage) -> None:
    """List, test and snooze: what is snoozed waits, and goes when the snooze is ended; unknown names are refused."""
    alerts = {"on-call": {"type": "command", "command": _tells(stage)}, "down": {"type": "command", "command": "exit 9"}}
    idle = stage.job("idle", "@yearly", alerts=["down"])
    stage.declare(stage.job("bad", command="exit 3", alerts=["on-call"]), idle, alerts=alerts)
    runner = stage.start().active()
    wait_until(lambda: _told(stage), "the alert is sent")

    def call(*arguments: str) -> Ended:
        return stage.call("--state", stage.state, "alerts", *arguments)

    assert call("test", "on-call").out.split() == ["on-call", "sent"]
    assert len(_told(stage)) == 2
    code, out, _ = call("test", "down")
    assert (code, "exit 9" in out) == (1, True)
    code, _, err = call("test", "on-cal")
    assert (code, 'did you mean "on-call"?' in err) == (4, True)
    code, out, _ = call("snooze", "on-call", "--for", "2h")
    assert (code, out.split()[:2]) == (0, ["on-call", "snoozed"])
    assert call("snooze", "nobody", "--for", "2h")[0] == 4
    assert call("snooze", "on-call", "--for", "0s")[1].split() == ["on-call", "not", "snoozed"]
    assert "delivered" in call("list")[1]
    runner.stop()
    assert call("test", "on-call")[0] == 3
    assert call("test", "on-call", "--file", str(stage.file))[0] == 0


def test_a_secret_of_an_alert_is_nowhere(stage: Stage) -> None:
    """A secret in an emitter's settings that the emitter itself repeats in its error is in no file, log or output."""
    canary = "canary-7f3a9c-token"
    alerts = {"on-call": {"type": "command", "command": "echo $WHERE >&2; exit 1", "env": {"WHERE": "secret:env:ONCALL_URL"}}}
    stage.declare(stage.job("bad", command="exit 3", alerts=["on-call"]), alerts=alerts)
    env = {"ONCALL_URL": f"https://user:{canary}@example.com/{canary}"}
    runner = stage.start(env=env).active()
    said = runner.says("alert_failed", alert="on-call")
    assert "***" in said["message"]
    shown = stage.call("--state", stage.state, "alerts", "list")
    tested = stage.call("--state", stage.state, "alerts", "test", "on-call")
    assert tested.code == 1
    runner.stop()
    texts = [runner.stdout, runner.stderr, *shown[1:], *tested[1:]]
    assert not [text for text in texts if canary in text]
    files = [path for path in Path(stage.root).rglob("*") if path.is_file()]
    assert stage.history in files
    assert not [path for path in files if canary.encode() in path.read_bytes()]


def test_wrong_alerts_are_errors_with_a_place(stage: Stage) -> None:
    """An alert that nobody declares, an unknown event and an unknown key are errors where they stand."""
    file = stage.root / "jobs.toml"
    file.write_text(
        'version = 1\n[[jobs]]\nname = "a"\nschedule = "@daily"\ncommand = "true"\nalerts = ["on-call", "on-cal"]\n'
        '[alerts.on-call]\ntype = "log"\nevents = ["run_failed", "run_fialed"]\nformatt = "json"\n',
        encoding="utf-8",
    )
    code, out, _ = stage.call("validate", file)
    assert code == 2
    for place, words in (
        ("jobs.toml:6:22", 'the alert "on-cal" is not declared'),
        ("jobs.toml:9:25", 'events cannot be "run_fialed"'),
        ("jobs.toml:10:1", 'unknown key "formatt"'),
    ):
        assert place in out
        assert words in out
