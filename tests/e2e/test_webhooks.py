"""Webhooks by a real runner: attempts, times, a job that nobody wants any more, and secrets that are kept nowhere."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from stage import EACH_SECOND, Stage, quick, wait_until
from standardwebhooks import Webhook

KEY = "whsec_" + base64.b64encode(b"canary signing secret of a job").decode()
YEARLY = "0 0 1 1 *"


class Receiver:
    """An HTTP server that gives its answers one after the other, the last one for ever; ``echo`` sends back all it was sent."""

    def __init__(self, *answers: tuple[int, dict[str, str]], echo: bool = False, hang: bool = False) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.over = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", "0")))
                receiver.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                if hang:
                    receiver.over.wait(60)
                status, headers = answers[min(len(receiver.requests), len(answers)) - 1]
                said = f"{self.path} {self.headers} {body!r} {KEY}".encode() if echo else b""
                with contextlib.suppress(ConnectionError):  # whoever asked has given up
                    self._answer(status, headers, said)

            def _answer(self, status: int, headers: dict[str, str], said: bytes) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self.host = f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _job(receiver: Receiver, name: str = "hook", schedule: str = YEARLY, **more: object) -> dict[str, object]:
    sink = {"type": "webhook", "url": f"http://{receiver.host}/hook"} | dict(more.pop("sink", {}))  # type: ignore[call-overload]
    return {"name": name, "schedule": schedule, "sink": sink} | more


def _attempts(stage: Stage) -> list[tuple[int, str, int, int]]:
    statement = "SELECT attempt, status, sent_at, finished_at FROM attempts ORDER BY attempt"
    return [(int(number), str(status), int(sent), int(end)) for number, status, sent, end in stage.rows(stage.history, statement)]


def test_a_webhook_is_tried_again_as_the_receiver_asks(stage: Stage) -> None:
    """429 with Retry-After and 500 use up one retry each; the next try is not before what was asked for; one id for all three."""
    with Receiver((429, {"Retry-After": "1"}), (500, {}), (200, {})) as receiver:
        stage.declare(_job(receiver, retry={"max": 2, "base": "10ms"}, sink={"sign_with": "secret:env:KEY"}))
        done = stage.call("run", "--once", "hook", stage.file, "--state", stage.state, env={"KEY": KEY})
    assert done.code == 0, done.err
    first, second, third = _attempts(stage)
    assert [one[:2] for one in (first, second, third)] == [(0, "failed"), (1, "failed"), (2, "delivered")]
    assert second[2] - first[3] >= 1_000
    assert len(receiver.requests) == 3
    assert len({headers["webhook-id"] for _, headers, _ in receiver.requests}) == 1
    assert [headers["x-cronpad-attempt"] for _, headers, _ in receiver.requests] == ["0", "1", "2"]
    for _, headers, body in receiver.requests:
        Webhook(KEY).verify(body, headers)


def test_a_kill_between_a_request_and_its_answer_is_one_more_request(stage: Stage) -> None:
    """Row 6: the next start sends the same attempt of the same run once more, under the same id."""
    with Receiver((200, {}), hang=True) as receiver:
        stage.declare(_job(receiver))
        first = stage.start(env=quick()).active()
        assert stage.call("trigger", "hook", "--state", stage.state).code == 0
        wait_until(lambda: receiver.requests, "the request has arrived")
        first.kill()
        receiver.over.set()
        second = stage.start(env=quick()).active()
        [ended] = second.finished("hook")
        second.stop()
    assert len(receiver.requests) == 2
    assert len({headers["webhook-id"] for _, headers, _ in receiver.requests}) == 1
    assert [headers["x-cronpad-attempt"] for _, headers, _ in receiver.requests] == ["0", "0"]
    assert stage.statuses() == {ended["run_id"]: "succeeded"}


def test_retries_end_at_their_deadline(stage: Stage) -> None:
    """A receiver that asks for an hour beyond the deadline of the retries gets no further try: the run has failed."""
    with Receiver((503, {"Retry-After": "3600"})) as receiver:
        stage.declare(_job(receiver, retry={"max": 5, "base": "10ms", "deadline": "1m"}))
        done = stage.call("run", "--once", "hook", stage.file, "--state", stage.state)
    assert done.code != 0
    assert [one[:2] for one in _attempts(stage)] == [(0, "failed")]
    assert list(stage.statuses().values()) == ["failed"]


def test_a_job_that_nobody_wants_is_paused(stage: Stage) -> None:
    """410 ends the run without a retry and pauses its job, with the reason; resumed, it goes on."""
    with Receiver((410, {}), (200, {})) as receiver:
        stage.declare(_job(receiver, retry={"max": 5}))
        runner = stage.start().active()
        assert stage.call("trigger", "hook", "--state", stage.state).code == 0
        statement = "SELECT status, paused_reason FROM jobs WHERE name = 'hook'"
        wait_until(lambda: stage.rows(stage.control, statement) == [("paused", "gone")], "the job was not paused")
        assert [one[:2] for one in _attempts(stage)] == [(0, "failed")]
        assert len(receiver.requests) == 1
        assert stage.call("jobs", "resume", "hook", "--state", stage.state).code == 0
        assert stage.call("trigger", "hook", "--state", stage.state).code == 0
        runner.finished("hook", status="delivered")


def test_a_webhook_without_an_answer_times_out(stage: Stage) -> None:
    """A receiver that never answers costs each attempt its time-out, and a retry."""
    with Receiver((200, {}), hang=True) as receiver:
        stage.declare(_job(receiver, timeout="300ms", retry={"max": 1, "base": "10ms"}))
        done = stage.call("run", "--once", "hook", stage.file, "--state", stage.state)
    assert done.code != 0
    attempts = _attempts(stage)
    assert [one[:2] for one in attempts] == [(0, "timed_out"), (1, "timed_out")]
    assert all(end - sent >= 300 for _, _, sent, end in attempts)


CANARIES = {
    "TOKEN": "canary-token-aaaaaaaa",
    "HEADER": "canary-header-bbbbbb+/",
    "KEY": KEY,
    "OLD": "whsec_" + base64.b64encode(b"canary signing secret before").decode(),
}


def _needles() -> list[bytes]:
    """What of the secrets may stand nowhere, in any form."""
    plain = [*CANARIES.values(), KEY[6:], "canary-password", "canary-path", "canary-query"]
    return [
        form.encode()
        for text in plain
        for form in {
            text,
            quote(text, safe=""),
            json.dumps(text)[1:-1],
            base64.b64encode(text.encode()).decode().rstrip("=")[:-1],
        }
    ]


def _betrayals(stage: Stage) -> list[str]:
    found = []
    kept = [path for path in stage.root.rglob("*") if path.is_file() and path.name != "secret-url"]
    assert {"cronpad.db", "cronpad-queue.db", "history.db"} <= {path.name for path in kept}, kept
    for path in kept:
        content = path.read_bytes()
        found += [f"{path.relative_to(stage.root)}: {needle.decode()}" for needle in _needles() if needle in content]
    return found


def test_secrets_are_kept_nowhere(stage: Stage) -> None:
    """In no database, log or output is a secret of a URL, a header, a token or a signature, whatever the receiver does."""
    secret_url = Path(stage.root / "secret-url")
    with Receiver((500, {"X-Echo": "1"}), echo=True) as receiver, Receiver((200, {}), hang=True) as silent:
        secret_url.write_text(f"http://user:canary-password@{receiver.host}/canary-path?token=canary-query\n", encoding="utf-8")
        secret_url.chmod(0o600)
        settings = {
            "url": f"secret:file:{secret_url}",
            "bearer": "secret:env:TOKEN",
            "headers": {"X-Key": "secret:env:HEADER"},
            "sign_with": ["secret:env:KEY", "secret:env:OLD"],
        }
        plain = {**settings, "url": f"http://{receiver.host}/hook"}
        hurried = {"timeout": "500ms"}
        del settings["bearer"]
        stage.declare(
            _job(receiver, "echoed", EACH_SECOND, sink=plain),
            _job(receiver, "hidden", EACH_SECOND, sink=settings),
            _job(receiver, "silent", EACH_SECOND, sink={**plain, "url": f"http://{silent.host}/hook"}, **hurried),
            _job(receiver, "unreached", EACH_SECOND, sink={**plain, "url": "http://127.0.0.1:1/hook"}),
            _job(receiver, "refused", EACH_SECOND, sink={**plain, "url": "http://169.254.169.254/hook"}),
            _job(receiver, "unsendable", EACH_SECOND, sink={**plain, "body": "{{ params.none }}"}),
        )
        runner = stage.start("-v", env=CANARIES).active()
        for name in ("echoed", "hidden", "unreached", "refused", "unsendable"):
            runner.finished(name, status="failed")
        runner.finished("silent", status="timed_out")
        shown = [stage.call("runs", "list", "--json", "--state", stage.state), stage.call("jobs", "list", "--state", stage.state)]
        run = next(iter(stage.statuses()))
        shown += [
            stage.call("runs", "show", run, "--state", stage.state),
            stage.call("runs", "logs", run, "--state", stage.state),
        ]
        (stage.root / "shown").write_text("\n".join(one.out + one.err for one in shown), encoding="utf-8")
        paths = {path for path, _, _ in receiver.requests}
        assert "/canary-path?token=canary-query" in paths
        assert any(headers.get("authorization") == f"Bearer {CANARIES['TOKEN']}" for _, headers, _ in receiver.requests)
        assert _betrayals(stage) == []


def test_a_webhook_validates(stage: Stage) -> None:
    """A jobs file with a webhook is checked as any other: a mistake in it is named with its place."""
    with Receiver((200, {})) as receiver:
        stage.declare(_job(receiver, sink={"sign_with": "secret:env:KEY"}))
        assert stage.call("validate", stage.file).code == 0
        stage.declare(_job(receiver, sink={"headers": {"Host": "evil.test"}}))
        refused = stage.call("validate", stage.file)
        assert refused.code != 0
        assert "Host" in refused.out + refused.err
        assert receiver.requests == []
