"""The suite of the test kit on the webhook sink, against a server in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cronpad_testkit.suites import SinkCase, SinkSuite
from cronpad_webhook.sink import WebhookSink


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    over: threading.Event

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/hang":
            self.over.wait(60)
        self.send_response(500 if self.path == "/fail" else 200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Says nothing."""


class TestWebhookSink(SinkSuite):
    """K1 to K3 of the webhook sink."""

    @pytest.fixture
    def sink_case(self) -> Iterator[SinkCase]:
        """A server that answers, fails, or never answers."""
        handler = type("Handler", (_Handler,), {"over": threading.Event()})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        base = f"http://127.0.0.1:{server.server_port}"
        yield SinkCase(type=WebhookSink, succeeds={"url": base}, fails={"url": f"{base}/fail"}, hangs={"url": f"{base}/hang"})
        handler.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
