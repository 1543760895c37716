"""What is sent: headers, templates, bodies, and what a job may not say."""

from __future__ import annotations

import json

import pytest
from post_office import OK, WHSEC
from pydantic import ValidationError

from cronpad_core.api import Delivered, Failed
from cronpad_webhook.settings import Settings

URL = "https://hooks.example.com/x"

REFUSED_HEADERS = [
    ("X-Name", "ok\r\nX-Evil: 1"),
    ("X-Name", "a\nb"),
    ("X-Name", "\0"),
    ("X-Name", "ü"),
    ("X-Na me", "v"),
    ("X-Name:", "v"),
    ("", "v"),
    ("Host", "evil.test"),
    ("content-length", "5"),
    ("Transfer-Encoding", "chunked"),
    ("Connection", "close"),
    ("webhook-signature", "forged"),
    ("Webhook-Id", "mine"),
    ("webhook-anything", "x"),
    ("X-Cronpad-Attempt", "9"),
    ("Idempotency-Key", "mine"),
    ("Accept-Encoding", "gzip"),
    ("traceparent", "x"),
]


@pytest.mark.parametrize(("name", "value"), REFUSED_HEADERS)
def test_headers_that_are_refused_when_the_file_is_read(name, value):
    """B124: a value that is more than one line, a name that is none, and a header of ours are refused by name."""
    with pytest.raises(ValidationError) as refused:
        Settings.model_validate({"url": URL, "headers": {name: value}})
    assert name in str(refused.value)


@pytest.mark.parametrize("value", ["ok\r\nX-Evil: 1", "a\nb", "\0", "ü", "x" * 5000])
@pytest.mark.parametrize("source", ["template", "secret"])
def test_headers_that_become_bad_fail_without_sending(desk, value, source):
    """B124: a value that is bad only once it is filled in fails the run, and nothing is sent."""
    desk.secrets["secret:env:H"] = value
    text = "{{ params.x }}" if source == "template" else "secret:env:H"
    outcomes, server = desk.run(OK, settings={"headers": {"X-Name": text}}, changes=[{"payload": {"x": value}}])
    assert isinstance(outcomes[0], Failed)
    assert (outcomes[0].facts["error"], outcomes[0].retryable, outcomes[0].undelivered) == ("not_sendable", False, True)
    assert server.requests == []
    assert "X-Name" in outcomes[0].reason


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"url": "ftp://h/x"}, "http"),
        ({"url": "hooks.example.com"}, "http"),
        ({"url": "http://"}, "host"),
        ({"url": "http://h:99999/"}, "read"),
        ({"url": "http://h/a b"}, "space"),
        ({"url": "http://h/\nx"}, "control"),
        ({"url": "http://h/#x"}, "fragment"),
        ({"url": "https://u:pw@h/"}, "secret"),
        ({"url": "unix:/run/x.sock"}, "http"),
        ({"url": URL, "body": "a", "json": {}}, "not both"),
        ({"url": URL, "method": "GET", "body": "a"}, "no body"),
        ({"url": URL, "method": "TRACE"}, "method"),
        ({"url": URL, "body": "{{ run.__class__ }}"}, "unknown name"),
        ({"url": URL, "json": {"a": ["{{ nothing }}"]}}, "unknown name"),
        ({"url": URL, "bearer": "plain"}, "secret"),
        ({"url": URL, "bearer": "secret:env:A", "headers": {"authorization": "x"}}, "not both"),
        ({"url": URL, "headers": {"X-A": "1", "x-a": "2"}}, "twice"),
        ({"url": URL, "sign_with": "plain"}, "whsec_"),
        ({"url": URL, "statuses": {"600": "ok"}}, "status"),
        ({"url": URL, "statuses": {"404": "maybe"}}, "statuses"),
        ({"url": URL, "redirects": 4}, "redirects"),
        ({"url": URL, "client_key": "/k"}, "client_cert"),
        ({"url": URL, "ca_file": "ca.pem"}, "absolute"),
        ({"url": URL, "verify": False}, "verify"),
    ],
)
def test_settings_that_are_refused(settings, said):
    """A mistake is refused when the file is read, in words that name it."""
    with pytest.raises(ValidationError, match=said):
        Settings.model_validate(settings)


def test_refusals_do_not_repeat_secrets():
    """A URL with a password and a plain secret are refused without being shown."""
    for settings in (
        {"url": "https://u:s3cr3t-C@h.test/"},
        {"url": URL, "bearer": "s3cr3t-C"},
        {"url": URL, "sign_with": "s3cr3t-C"},
    ):
        with pytest.raises(ValidationError) as refused:
            Settings.model_validate(settings)
        assert "s3cr3t-C" not in str(refused.value)


def test_what_every_request_carries(desk):
    """Ids, attempt and scheduled time are sent; the fence where a job asks for it; a trace where there is one."""
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=b"}
    _, server = desk.run(OK, settings={"send_fence": True}, changes=[{"trace": trace, "attempt": 2, "redelivery": 1}])
    headers = server.requests[0].headers
    assert headers["webhook-id"] == headers["idempotency-key"]
    assert (headers["x-cronpad-attempt"], headers["x-cronpad-redelivery"], headers["x-cronpad-fence"]) == ("2", "1", "7")
    assert headers["x-cronpad-scheduled-at"] == "2026-01-01T00:00:00.000Z"
    assert (headers["traceparent"], headers["tracestate"]) == (trace["traceparent"], trace["tracestate"])
    assert (headers["content-type"], headers["user-agent"]) == ("application/json", "cronpad")
    assert len(server.requests[0].names) == len(set(server.requests[0].names))


def test_a_job_replaces_defaults(desk):
    """A job's own content type and user agent stand in the place of the defaults, once."""
    _, server = desk.run(OK, settings={"headers": {"content-type": "text/csv", "USER-AGENT": "mine"}, "body": "a,b"})
    request = server.requests[0]
    assert (request.headers["content-type"], request.headers["user-agent"], request.body) == ("text/csv", "mine", b"a,b")
    assert request.names.count("content-type") == request.names.count("user-agent") == 1


def test_templates_are_filled(desk):
    """Fixed names are replaced in bodies and headers; a text that is one name becomes its value; nothing is filled twice."""
    payload = {"n": 7, "list": [1, 2], "text": 'say "{{ job.id }}"'}
    wanted = {"at": "{{ scheduled_at }}", "n": "{{ params.n }}", "both": "{{params.n}}-{{ trigger }}", "l": "{{ params.list }}"}
    settings = {"json": {**wanted, "t": "{{ params.text }}"}, "headers": {"X-Job": "{{ job.name }}/{{ run.id }}"}}
    _, server = desk.run(OK, settings=settings, changes=[{"payload": payload}])
    assert json.loads(server.requests[0].body) == {
        "at": "2026-01-01T00:00:00.000Z",
        "n": 7,
        "both": "7-scheduled",
        "l": [1, 2],
        "t": 'say "{{ job.id }}"',
    }
    assert server.requests[0].headers["x-job"] == "nightly/run_a"


def test_a_name_that_the_run_lacks_fails_without_sending(desk):
    """A parameter that nobody gave is no empty text: the run fails, and nothing is sent."""
    outcomes, server = desk.run(OK, settings={"body": "{{ params.who }}"})
    assert isinstance(outcomes[0], Failed)
    assert (outcomes[0].retryable, server.requests) == (False, [])
    assert "params.who" in outcomes[0].reason


def test_a_filled_text_has_a_bound(desk):
    """A template that grows beyond 64 KiB fails the run."""
    outcomes, server = desk.run(OK, settings={"body": "{{ params.x }}" * 20}, changes=[{"payload": {"x": "y" * 10_000}}])
    assert (outcomes[0].facts["error"], server.requests) == ("not_sendable", [])


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "GET", "HEAD"])
def test_methods(desk, method):
    """Each method is sent as it is named; GET, HEAD and DELETE have no body of their own accord."""
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
    outcomes, server = desk.run(head, settings={"method": method, "sign_with": WHSEC})
    assert isinstance(outcomes[0], Delivered)
    assert server.requests[0].line.startswith(f"{method} /hook ")
    assert bool(server.requests[0].body) is (method in ("POST", "PUT", "PATCH"))
