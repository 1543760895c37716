"""What answers become: statuses, Retry-After, redirects, and answers that break off, never end, or are too large."""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct

import pytest
from post_office import OK, Server, answer

from cronpad_core.api import Cancelled, Delivered, Failed, TimedOut
from cronpad_webhook.retry_after import retry_after_ms

NOON = 1_772_366_400.0
"""2026-03-01T12:00:00Z."""


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_success_is_delivered(desk, status):
    """Any 2xx is delivered."""
    outcome = desk.one(f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n".encode())
    assert isinstance(outcome, Delivered)
    assert outcome.facts["http_status"] == status


@pytest.mark.parametrize(
    ("status", "retryable"),
    [
        *((status, False) for status in (400, 401, 403, 404, 405, 409, 422)),
        *((status, True) for status in (408, 425, 429, 500, 501, 502, 503, 504)),
    ],
)
def test_failures(desk, status, retryable):
    """A status says whether a retry can help."""
    outcome = desk.one(answer(f"{status} X", body=b"why"))
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.retryable, outcome.undelivered, outcome.pause) == (f"HTTP {status}", retryable, False, None)
    assert outcome.output[0].head == b"why"


def test_gone_pauses(desk):
    """410 fails for good, and asks for the job to be paused."""
    outcome = desk.one(answer("410 Gone"))
    assert isinstance(outcome, Failed)
    assert (outcome.retryable, outcome.pause) == (False, "gone")


@pytest.mark.parametrize(
    ("status", "rules", "expected"),
    [
        (404, {"404": "ok"}, (Delivered, None, None)),
        (404, {"4xx": "retry"}, (Failed, True, None)),
        (404, {"4xx": "retry", "404": "gone"}, (Failed, False, "gone")),
        (410, {"410": "retry"}, (Failed, True, None)),
        (200, {"2xx": "fail", "204": "ok"}, (Failed, False, None)),
        (503, {"5xx": "fail"}, (Failed, False, None)),
    ],
)
def test_a_job_has_its_own_rules(desk, status, rules, expected):
    """A rule for a status wins over one for its class, and both over the defaults."""
    outcome = desk.one(answer(f"{status} X"), settings={"statuses": rules})
    found = (type(outcome), getattr(outcome, "retryable", None), getattr(outcome, "pause", None))
    assert found == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("120", 120_000),
        ("Sun, 01 Mar 2026 12:02:00 GMT", 120_000),
        ("Sunday, 01-Mar-26 12:02:00 GMT", 120_000),
        ("Sun Mar  1 12:02:00 2026", 120_000),
        ("Sun, 01 Mar 2026 11:00:00 GMT", None),
        ("-5", None),
        ("1e3", None),
        ("soon", None),
        ("", None),
        ("0", None),
        ("1.5", None),
        ("Sun, 99 Mar 2026 12:02:00 GMT", None),
        ("99999999999", 3_600_000),
        ("9" * 18, 3_600_000),
        ("Sun, 01 Mar 2099 12:02:00 GMT", 3_600_000),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after(desk, status, header, expected):
    """B121: seconds and each form of a date are obeyed up to an hour; what is past or garbage is as if it were not there."""
    assert retry_after_ms(header, now=NOON) == expected
    given = answer(f"{status} X", f"retry-after: {header}")
    outcomes, _ = desk.run(given, sink={"now": lambda: NOON})
    assert (outcomes[0].retry_after_ms, outcomes[0].retryable) == (expected, True)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(desk, status):
    """B117: a redirect is a failure that names its target without the query, and the target is not called."""
    outcomes, server = desk.run(answer(f"{status} X", "location: /b?token=s3cr3t"), OK)
    assert isinstance(outcomes[0], Failed)
    assert "/b" in outcomes[0].reason
    assert "s3cr3t" not in repr(outcomes[0])
    assert len(server.requests) == 1


@pytest.mark.parametrize(("status", "followed"), [(301, False), (302, False), (303, False), (307, True), (308, True)])
def test_redirects_that_are_followed_keep_method_and_body(desk, status, followed):
    """B117: where a job follows redirects, it follows those alone that keep method and body."""
    outcomes, server = desk.run(answer(f"{status} X", "location: /b"), OK, settings={"redirects": 1, "body": "all of it"})
    assert isinstance(outcomes[0], Delivered) is followed
    assert [one.line for one in server.requests] == ["POST /hook HTTP/1.1", "POST /b HTTP/1.1"][: 1 + followed]
    assert {one.body for one in server.requests} == {b"all of it"}


def test_redirects_end(desk):
    """A circle of redirects ends after as many as the job allows."""
    outcomes, server = desk.run(answer("307 X", "location: /hook"), settings={"redirects": 3})
    assert isinstance(outcomes[0], Failed)
    assert len(server.requests) == 4


def test_another_origin_sees_no_secret(desk):
    """A redirect to another origin takes neither authorization nor cookie nor signature nor the job's secret headers along."""

    async def scenario():
        second = await Server().start()
        first = await Server(answers=[answer("307 X", f"location: http://localhost:{second.port}/x")]).start()
        headers = {"X-Api-Key": "secret:env:KEY", "Cookie": "a=b", "X-Plain": "yes"}
        settings = {
            "url": first.url,
            "redirects": 1,
            "bearer": "secret:env:TOKEN",
            "headers": headers,
            "sign_with": "secret:env:S",
        }
        desk.secrets.update({"secret:env:KEY": "k" * 20, "secret:env:TOKEN": "t" * 20})
        desk.secrets["secret:env:S"] = "whsec_" + "QUFB" * 10
        sink = desk.sink()
        outcome = await sink.deliver(desk.delivery(settings))
        await sink.close()
        await first.stop()
        await second.stop()
        return outcome, first.requests[0], second.requests[0]

    outcome, first, second = asyncio.run(scenario())
    assert isinstance(outcome, Delivered)
    secret = {"authorization", "cookie", "webhook-signature", "x-api-key"}
    assert secret <= set(first.names)
    assert not secret & set(second.names)
    assert second.headers["x-plain"] == "yes"


async def _for_ever(_, writer):
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"x" * 65_536)
        await writer.drain()


def test_an_endless_body_is_cut(desk):
    """Of an answer without an end one mebibyte is read; the status decides, and the connection is closed."""
    outcomes, server = desk.run(_for_ever)
    outcome = outcomes[0]
    assert isinstance(outcome, Delivered)
    assert outcome.facts["response_truncated"] is True
    assert (outcome.output[0].total, len(outcome.output[0].head)) == (1_048_576, 65_536)
    assert server.closed.is_set()


def test_an_oversized_answer_is_cut(desk):
    """A large answer is read up to the bound; what is kept is its beginning, and less where the job says so."""
    large = answer("500 X", body=b"a" * 2_000_000)
    outcome = desk.one(large, settings={"response_read": 1000, "response_kept": 10})
    assert isinstance(outcome, Failed)
    assert (outcome.output[0].total, outcome.output[0].head) == (1000, b"a" * 10)


def test_a_bomb_is_not_unpacked(desk):
    """An answer that unpacks to a hundred megabytes is kept as it came; no compression is asked for."""
    bomb = gzip.compress(bytes(100_000_000))
    outcomes, server = desk.run(answer("200 OK", "content-encoding: gzip", body=bomb))
    assert server.requests[0].headers["accept-encoding"] == "identity"
    assert outcomes[0].output[0].total == len(bomb)
    assert outcomes[0].output[0].head == bomb[:65_536]


async def _drip_body(_, writer):
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def _drip_header(_, writer):
    writer.write(b"HTTP/1.1 200 OK\r\n")
    number = 0
    while True:
        writer.write(f"x-{number}: 1\r\n".encode())
        number += 1
        await writer.drain()
        await asyncio.sleep(0.02)


async def _silence(_, writer):
    await asyncio.sleep(60)


@pytest.mark.parametrize("behaviour", [_drip_body, _drip_header, _silence])
def test_one_deadline_for_all_of_it(desk, behaviour):
    """B122: a byte now and then moves no deadline; the request ends when its time is up, and its connection with it."""
    outcomes, server = desk.run(behaviour, changes=[{"timeout_ms": 400}])
    assert isinstance(outcomes[0], TimedOut)
    assert "0.4 s" in outcomes[0].reason
    assert len(server.requests) == 1


def test_the_connection_of_a_request_that_timed_out_is_closed(desk):
    """B122: the server sees the end of the connection as soon as the deadline has passed."""

    async def scenario():
        server = await Server(answers=[_drip_body]).start()
        sink = desk.sink()
        await sink.deliver(desk.delivery({"url": server.url}, timeout_ms=300))
        async with asyncio.timeout(30):
            await server.closed.wait()
        await sink.close()
        await server.stop()

    asyncio.run(scenario())


async def _reset(_, writer):
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _hang_up(_, writer):
    writer.close()


async def _break_off(_, writer):
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this")
    await writer.drain()
    writer.close()


@pytest.mark.parametrize("behaviour", [_reset, _hang_up, _break_off])
def test_a_broken_connection_can_be_tried_again(desk, behaviour):
    """After the request was sent nobody knows what became of it: a retryable failure that does not count as undelivered."""
    outcomes, server = desk.run(behaviour)
    assert isinstance(outcomes[0], Failed)
    assert (outcomes[0].facts["error"], outcomes[0].retryable, outcomes[0].undelivered) == ("reset", True, False)
    assert len(server.requests) == 1


@pytest.mark.parametrize("garbage", [b"SSH-2.0-OpenSSH_9.2\r\n\r\n", b"\x00\x01\x02\x03\r\n\r\n", b"HTTP/9.9 abc\r\n\r\n"])
def test_what_is_not_http_is_a_failure_without_its_text(desk, garbage):
    """A server that speaks something else is a retryable failure, and its banner is not repeated."""
    outcome = desk.one(garbage)
    assert isinstance(outcome, Failed)
    assert (outcome.facts["error"], outcome.retryable) == ("protocol", True)
    assert "OpenSSH" not in repr(outcome)


@pytest.mark.parametrize("line", [b"x" * 100_000, b"x: " + b"y" * 100_000])
def test_huge_headers_are_refused(desk, line):
    """A header of a hundred kilobytes ends the request, not the process."""
    outcome = desk.one(b"HTTP/1.1 200 OK\r\n" + line + b"\r\n\r\n")
    assert isinstance(outcome, Failed)
    assert outcome.facts["error"] == "protocol"


def test_nobody_listens(desk):
    """A refused connection is retryable, and known not to have been delivered."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        outcome = desk.one(settings={"url": f"http://127.0.0.1:{port}/"})
    assert isinstance(outcome, Failed)
    assert (outcome.facts["error"], outcome.retryable, outcome.undelivered) == ("connect", True, True)


def test_a_cancel_ends_the_request(desk):
    """Asked to stop, a request that waits for its answer is given up at once, with the reason it was told."""

    async def scenario():
        begun = asyncio.Event()

        async def wait(_, writer):
            begun.set()
            await asyncio.sleep(60)

        server = await Server(answers=[wait]).start()
        sink = desk.sink()
        delivery = desk.delivery({"url": server.url})
        task = asyncio.create_task(sink.deliver(delivery))
        await begun.wait()
        delivery.cancel.ask("stop", "the runner stops")
        outcome = await task
        await sink.close()
        await server.stop()
        return outcome

    outcome = asyncio.run(scenario())
    assert isinstance(outcome, Cancelled)
    assert outcome.reason == "the runner stops"


def test_cookies_stay_with_nobody(desk):
    """What one answer sets, no later request of any job carries."""
    _, server = desk.run(answer("200 OK", "set-cookie: session=abc; Path=/"), OK, changes=[{}, {"job_id": "job_b"}])
    assert [request.headers.get("cookie") for request in server.requests] == [None, None]
