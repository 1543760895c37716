"""The alert emitter: what a receiver gets, and which answers mean that it was not sent."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
from pydantic import ValidationError
from standardwebhooks import Webhook

from cronpad_core.api import AlertEmitter, JsonValue
from cronpad_testkit.suites import AlertEmitterSuite, EmitterCase
from cronpad_testkit.suites.emitter import alert
from cronpad_webhook.emitter import AlertSettings, WebhookEmitter

KEY = "whsec_" + base64.b64encode(b"a signing secret of an alert").decode()


class Receiver:
    """A server on loopback; ``/no`` is answered with 500, ``/hang`` not at all."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.over = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                if self.path == "/hang":
                    receiver.over.wait(60)
                self.send_response(500 if self.path.startswith("/no") else 204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """One receiver for each test."""
    one = Receiver()
    thread = threading.Thread(target=one.server.serve_forever, args=(0.02,))
    thread.start()
    yield one
    one.over.set()
    one.server.shutdown()
    one.server.server_close()
    thread.join()


class TestWebhookEmitter(AlertEmitterSuite):
    """A1 and A2."""

    capabilities: ClassVar[frozenset[str]] = frozenset({"cancellable"})

    @pytest.fixture
    def emitter_type(self) -> type[AlertEmitter]:
        """The class."""
        return WebhookEmitter

    @pytest.fixture
    def working(self, receiver: Receiver) -> EmitterCase:
        """The texts of what was received."""

        def received() -> Sequence[str]:
            return [json.loads(body)["text"] for _, _, body in receiver.requests]

        return EmitterCase(settings={"url": f"{receiver.url}/yes"}, received=received)

    @pytest.fixture
    def failing(self, receiver: Receiver) -> Mapping[str, JsonValue]:
        """A receiver that has trouble of its own."""
        return {"url": f"{receiver.url}/no"}

    @pytest.fixture
    def hanging(self, receiver: Receiver) -> Mapping[str, JsonValue]:
        """A receiver that does not answer."""
        return {"url": f"{receiver.url}/hang"}


def _send(kind: str = "run_failed", alert_id: str = "al_1", **settings: object) -> None:
    made = AlertSettings.model_validate(settings)
    asyncio.run(WebhookEmitter(made).emit(replace(alert(), kind=kind, id=alert_id)))


def test_a_receiver_verifies_it_with_the_standards_own_library(receiver: Receiver) -> None:
    """Signed by each secret, under the alert's id; the body is the document of an alert."""
    _send(url=receiver.url, sign_with=KEY, bearer="token of the receiver")
    [(_, headers, body)] = receiver.requests
    assert Webhook(KEY).verify(body, headers)["kind"] == "run_failed"
    assert (headers["webhook-id"], headers["authorization"]) == ("al_1", "Bearer token of the receiver")
    assert json.loads(body) == alert().to_json() | {"kind": "run_failed"}


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("run_started", "/uuid/start"),
        ("run_failed", "/uuid/fail"),
        ("run_poisoned", "/uuid/fail"),
        ("slot_missed", "/uuid/fail"),
        ("run_succeeded", "/uuid"),
        ("run_recovered", "/uuid"),
        ("runner_alive", "/uuid"),
        ("test", "/uuid"),
    ],
)
def test_a_ping_says_by_its_path_how_it_is(receiver: Receiver, kind: str, path: str) -> None:
    """A start, a failure, a sign of life: where services that wait for pings expect each, with the text as the body."""
    _send(kind, alert_id=f"{kind}.1", url=f"{receiver.url}/uuid/", ping=True)
    [(asked, headers, body)] = receiver.requests
    assert (asked, body.decode()) == (path, alert().text)
    assert "." not in headers["webhook-id"]


def test_why_it_was_not_sent_is_said_without_the_path(receiver: Receiver) -> None:
    """The path of such a URL is often its secret."""
    with pytest.raises(RuntimeError, match="500") as said:
        _send(url=f"{receiver.url}/no?key=hidden")
    assert "/no" not in str(said.value) and "hidden" not in str(said.value)


def test_an_address_that_is_never_reached_is_refused() -> None:
    """The guard of jobs stands before alerts too."""
    with pytest.raises(RuntimeError, match="policy"):
        _send(url="http://169.254.169.254/latest")


@pytest.mark.parametrize("wrong", [{}, {"url": "ftp://x/"}, {"url": "http://x", "sign_with": "short"}, {"url": "http://u:p@x/"}])
def test_settings_that_cannot_work_are_refused(wrong: dict[str, object]) -> None:
    """Whatever is wrong is found when the file is read."""
    with pytest.raises(ValidationError):
        AlertSettings.model_validate(wrong)
