"""Signatures: the standard's vectors, and a receiver that knows nothing but the standard's own library."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import UTC, datetime

import pytest
from post_office import OK, WHSEC, Desk, answer
from standardwebhooks import Webhook, WebhookVerificationError

from cronpad_core.api import Delivered, Failed
from cronpad_webhook.receiver import Refused, is_repeat, verify
from cronpad_webhook.signing import SecretUnusable, signature_headers

OLD = "whsec_" + base64.b64encode(b"the secret that was valid before").decode()
NEW = "whsec_" + base64.b64encode(b"the secret that is valid from now").decode()


@pytest.mark.parametrize(
    ("secret", "message_id", "timestamp", "body", "signature"),
    [
        (WHSEC, "msg_2f6b1c", 1772366400, '{"run":"r1","status":"failed"}', "v1,i2A2lwPkNgR0LqiWF7bUVAGuYu9/SBorw7xjQ8sEk6M="),
        (
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1614265330,
            '{"test": 2432232314}',
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        ),
    ],
    ids=["field", "standard"],
)
def test_vectors(secret, message_id, timestamp, body, signature):
    """B125: known secret, id, time and body give the known signature."""
    made = signature_headers([secret], message_id=message_id, now=timestamp + 0.9, body=body)
    assert made == {"webhook-id": message_id, "webhook-timestamp": str(timestamp), "webhook-signature": signature}


@pytest.mark.parametrize(
    "secret",
    ["Y3JvbnBhZC1maWVsZC1ldmlkZW5jZS1rZXktMDAwMSE=", "whsec_", "whsec_c2hvcnQ=", "whsec_not base64!", "whsec_" + "QUFB" * 30],
)
def test_secrets_that_are_none_are_refused(secret):
    """A secret without its prefix, not in base64, too short or too long is refused, and not repeated in the message."""
    with pytest.raises(SecretUnusable) as refused:
        signature_headers([secret], message_id="m", now=0, body="")
    assert len(secret) < 8 or secret.removeprefix("whsec_") not in str(refused.value)


def _sent(settings, secrets=None, **changes):
    outcomes, server = Desk(secrets=secrets or {}).run(OK, settings=settings, changes=[changes])
    assert isinstance(outcomes[0], Delivered), outcomes
    return server.requests[0]


@pytest.mark.parametrize("settings", [{}, {"json": {"ü": "{{ job.name }}"}}, {"body": "plain ü"}, {"method": "PUT", "body": ""}])
def test_the_standards_own_library_accepts(settings):
    """What is sent is what was signed: the standard's library accepts it, and no other body under the same headers."""
    request = _sent({"sign_with": "secret:env:A", **settings}, {"secret:env:A": WHSEC})
    Webhook(WHSEC).verify(request.body, dict(request.headers), json_parse=False)
    with pytest.raises(WebhookVerificationError):
        Webhook(WHSEC).verify(request.body + b" ", dict(request.headers), json_parse=False)


def test_a_request_without_a_body_is_signed_too():
    """A GET signs an empty body."""
    request = _sent({"sign_with": WHSEC, "method": "GET"})
    assert request.body == b""
    Webhook(WHSEC).verify(b"", dict(request.headers), json_parse=False)


@pytest.mark.parametrize("known", [OLD, NEW])
def test_rotation(known):
    """While a secret is changed both sign, and a receiver that knows either one accepts."""
    request = _sent({"sign_with": ["secret:env:NEW", "secret:env:OLD"]}, {"secret:env:NEW": NEW, "secret:env:OLD": OLD})
    assert [one[:3] for one in request.headers["webhook-signature"].split(" ")] == ["v1,", "v1,"]
    Webhook(known).verify(request.body, dict(request.headers), json_parse=False)
    with pytest.raises(WebhookVerificationError):
        Webhook(WHSEC).verify(request.body, dict(request.headers), json_parse=False)


def test_the_id_is_the_same_over_retries_and_redeliveries():
    """B127: one occurrence has one id and one body, whatever happens; time and signature are those of the attempt."""
    ticks = iter(range(1_767_225_600, 1_767_300_000, 100))
    desk = Desk()
    failed = answer("500 Internal Server Error")
    changes = [{}, {"attempt": 1}, {"attempt": 1, "redelivery": 1}, {"scheduled_at_ms": 1_767_225_660_000}]
    outcomes, server = desk.run(
        failed, failed, OK, settings={"sign_with": WHSEC}, changes=changes, sink={"now": lambda: float(next(ticks))}
    )
    assert [type(one) for one in outcomes] == [Failed, Failed, Delivered, Delivered]
    *same, other = server.requests
    assert len({one.headers["webhook-id"] for one in same}) == 1
    assert len({one.body for one in same}) == 1
    assert len({one.headers["webhook-timestamp"] for one in same}) == 3
    assert len({one.headers["webhook-signature"] for one in same}) == 3
    assert [one.headers["x-cronpad-attempt"] for one in same] == ["0", "1", "1"]
    assert [one.headers["x-cronpad-redelivery"] for one in same] == ["0", "0", "1"]
    assert other.headers["webhook-id"] != same[0].headers["webhook-id"]
    for one in server.requests:
        assert "." not in one.headers["webhook-id"]
        assert one.headers["idempotency-key"] == one.headers["webhook-id"]


def test_a_secret_that_is_no_signing_secret_fails_without_sending():
    """A secret that turns out not to be ``whsec_…`` fails the run before anything is sent, and is not shown."""
    desk = Desk(secrets={"secret:env:A": "whsec_tooshort"})
    outcomes, server = desk.run(OK, settings={"sign_with": "secret:env:A"})
    assert isinstance(outcomes[0], Failed)
    assert (outcomes[0].retryable, outcomes[0].undelivered, server.requests) == (False, True, [])
    assert "tooshort" not in repr(outcomes[0])


def _signed(secret=NEW, *, body="{}", at=None):
    return signature_headers([secret], message_id="cp_a", now=datetime.now(UTC).timestamp() if at is None else at, body=body)


def test_a_receiver_verifies_with_any_valid_secret():
    """``verify`` answers the id where one of the secrets has signed, whatever the case of the headers' letters."""
    headers = {name.title(): value for name, value in _signed(OLD).items()}
    assert verify(b"{}", headers, [NEW, OLD]) == "cp_a"


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"{} ", _signed()),
        (b"{}", _signed(OLD)),
        (b"{}", {}),
        (b"{}", {**_signed(), "webhook-signature": "v1"}),
        (b"{}", {**_signed(), "webhook-signature": "garbage, more garbage"}),
        (b"{}", {**_signed(), "webhook-timestamp": "soon"}),
        (b"{}", _signed(at=1_000_000_000)),
        (b"\xff\xfe", _signed()),
    ],
    ids=["body", "secret", "missing", "version", "garbage", "time", "old", "bytes"],
)
def test_a_receiver_refuses_everything_else(body, headers):
    """A changed body, a foreign secret, headers that are missing or garbage, and an old request are refused alike."""
    with pytest.raises(Refused):
        verify(body, headers, [NEW])


def test_a_receiver_without_a_secret_accepts_nobody():
    """No secret at all is a mistake of the receiver, not a way in."""
    with pytest.raises(SecretUnusable):
        verify(b"{}", _signed(), [])


def test_a_receiver_knows_repeats():
    """An id is new once; it is forgotten after its time, and the oldest ones where there are too many."""
    seen: dict[str, float] = {}
    assert [is_repeat("a", seen, now=at) for at in (0.0, 1.0, 86_401.5)] == [False, True, False]
    assert [is_repeat(one, seen, now=86_402.0, most=2) for one in ("b", "c", "a", "c")] == [False, False, False, True]
    assert len(seen) == 2


def test_the_default_body_is_the_standards():
    """Without a body of its own a job sends type, timestamp and data."""
    request = _sent({}, payload={"day": 7})
    document = json.loads(request.body)
    assert (document["type"], document["timestamp"]) == ("cronpad.run", "2026-01-01T00:00:00.000Z")
    assert document["data"]["payload"] == {"day": 7}
    assert (document["data"]["job"], document["data"]["run_id"]) == ("nightly", "run_a")


def test_many_sign_at_once():
    """Fifty requests at once carry each its own id and a signature that fits it."""

    async def scenario():
        from post_office import Server

        server = await Server().start()
        desk = Desk()
        sink = desk.sink()
        deliveries = [
            desk.delivery({"url": server.url, "sign_with": WHSEC}, scheduled_at_ms=1_767_225_600_000 + number * 1000)
            for number in range(50)
        ]
        await asyncio.gather(*map(sink.deliver, deliveries))
        await sink.close()
        await server.stop()
        return server.requests

    requests = asyncio.run(scenario())
    assert len({one.headers["webhook-id"] for one in requests}) == 50
    for one in requests:
        Webhook(WHSEC).verify(one.body, dict(one.headers), json_parse=False)
