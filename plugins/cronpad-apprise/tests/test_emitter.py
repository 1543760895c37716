"""The emitter talks to a real server, by apprise's own plain JSON service."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from pydantic import ValidationError

from cronpad_apprise.emitter import AppriseEmitter, AppriseSettings
from cronpad_core.api import AlertEmitter, JsonValue
from cronpad_testkit.suites import AlertEmitterSuite, EmitterCase
from cronpad_testkit.suites.emitter import alert


class Server:
    """Keeps what is posted to it, and answers with ``status``."""

    def __init__(self) -> None:
        self.posted: list[dict[str, Any]] = []
        self.status = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.posted.append(json.loads(body))
                self.send_response(outer.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._http = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address for apprise, with a token in its path."""
        return f"json://127.0.0.1:{self._http.server_port}/canary-token"

    def close(self) -> None:
        """Ends it."""
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of its own for each test."""
    made = Server()
    yield made
    made.close()


class TestAppriseEmitter(AlertEmitterSuite):
    """A1."""

    @pytest.fixture
    def emitter_type(self) -> type[AlertEmitter]:
        """The class."""
        return AppriseEmitter

    @pytest.fixture
    def working(self, server: Server) -> EmitterCase:
        """A server that takes everything."""

        def received() -> Sequence[str]:
            return [json.dumps(one) for one in server.posted]

        return EmitterCase(settings={"url": server.url}, received=received)

    @pytest.fixture
    def failing(self, server: Server) -> Mapping[str, JsonValue]:
        """A server that takes nothing."""
        server.status = 500
        return {"url": server.url}


def _emit(url: str | list[str], **settings: object) -> None:
    asyncio.run(AppriseEmitter(AppriseSettings.model_validate({"url": url, **settings})).emit(alert()))


def test_a_message_has_a_title_and_a_type(server: Server) -> None:
    """The title names cronpad, the job and the kind; a failure is of the type failure."""
    _emit([server.url, server.url], title="cron on db1")
    assert len(server.posted) == 2
    told = server.posted[0]
    assert (told["title"], told["message"], told["type"]) == (
        "cron on db1: backup run failed",
        "backup failed: exit 3",
        "failure",
    )


def test_one_service_that_fails_fails_the_alert(server: Server) -> None:
    """An alert counts as sent when every service took it; what a service said is in the error."""
    server.status = 500
    with pytest.raises(RuntimeError, match="500"):
        _emit(server.url)


def test_an_address_that_is_none_is_not_repeated() -> None:
    """An address that apprise does not know may be a mistyped secret: the error does not hold it."""
    with pytest.raises(ValueError, match="none that apprise knows") as caught:
        _emit("nosuch://canary-token")
    assert "canary" not in str(caught.value)


def test_an_address_is_needed() -> None:
    """No address, or an empty one, is refused when the file is read."""
    for url in ("", [], [""]):
        with pytest.raises(ValidationError):
            AppriseSettings.model_validate({"url": url})
