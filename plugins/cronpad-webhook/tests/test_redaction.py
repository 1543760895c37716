"""No secret in anything that is kept, whatever form it has come back in."""

from __future__ import annotations

import base64
import json
import socket
from urllib.parse import quote, quote_plus

import pytest
from post_office import OK, Desk, answer

from cronpad_core.api import Failed
from cronpad_webhook.redaction import Redactor, shown_url

SECRET = 'c4nary/+ "ü" \\ s3cr3t'
KEY = "whsec_" + base64.b64encode(b"canary canary canary canary").decode()

FORMS = {
    "plain": SECRET,
    "quoted": quote(SECRET),
    "wholly quoted": quote(SECRET, safe=""),
    "quoted plus": quote_plus(SECRET),
    "json": json.dumps(SECRET),
    "base64": base64.b64encode(SECRET.encode()).decode(),
    "base64 within": base64.b64encode(b"user:" + SECRET.encode() + b"!").decode(),
    "base64 url": base64.urlsafe_b64encode(b"x" + SECRET.encode()).decode(),
}


def _betrays(text: str) -> bool:
    """Whether a part of the secret can be read out of a text, in any of the forms."""
    pieces = ["c4nary", "s3cr3t", *(base64.b64encode(bytes(n) + SECRET.encode()).decode()[4:-4] for n in range(3))]
    return any(piece in text for piece in pieces)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_masked(form):
    """As it is, in JSON, in a URL and in base64 wherever it begins."""
    assert _betrays(FORMS[form])
    redactor = Redactor([SECRET])
    assert not _betrays(redactor.text(f"before {FORMS[form]} after"))
    assert not _betrays(redactor.data(FORMS[form].encode()).decode())


def test_masked_bytes_are_as_many():
    """What is kept of an answer stays as long as it was."""
    assert len(Redactor([SECRET]).data(SECRET.encode() * 3)) == len(SECRET.encode()) * 3


def test_short_secrets_are_left():
    """A secret of fewer than eight characters is not looked for: it would mask innocent text."""
    assert Redactor(["abc"]).text("abcdef") == "abcdef"


@pytest.mark.parametrize("where", [0, 65_536 - 8, 65_536 - 1, 65_530])
def test_a_secret_across_the_bound_is_masked(desk, where):
    """A secret that the bound of what is kept would cut in two does not leave its first half."""
    desk.secrets["secret:env:A"] = "canary-0123456789"
    body = b"." * where + b"canary-0123456789" + b"." * 100
    outcome = desk.one(answer("500 X", body=body), settings={"bearer": "secret:env:A"})
    assert b"cana" not in outcome.output[0].head
    assert b"c" not in outcome.output[0].head


def test_an_answer_that_repeats_the_request_is_masked():
    """A server that sends back all headers and the URL shows no secret in what is kept."""
    desk = Desk(secrets={"secret:env:T": "canary-token-1", "secret:env:K": KEY, "secret:env:H": "canary-header-1"})

    async def echo(request, writer):
        text = json.dumps({**request.headers, "line": request.line, "key": KEY, "raw": KEY[6:]}).encode()
        writer.write(answer("500 X", f"content-type: text/{request.headers['x-key']}", body=text))

    settings = {"bearer": "secret:env:T", "sign_with": "secret:env:K", "headers": {"X-Key": "secret:env:H"}}
    outcome = desk.one(echo, settings=settings)
    kept = repr(outcome)
    assert outcome.output[0].total > 100
    assert [one for one in ("canary", KEY[6:]) if one in kept] == []


@pytest.mark.parametrize("how", ["answer", "no answer", "bad name", "timeout"])
def test_a_secret_url_is_not_shown(how):
    """Of a URL that is a secret the host alone is shown, whatever becomes of the request."""
    desk = Desk()

    async def silent(request, writer):
        desk.secrets["line"] = request.line
        if how == "answer":
            writer.write(answer("500 X", body=request.line.encode()))
        elif how == "timeout":
            import asyncio

            await asyncio.sleep(60)
        else:
            writer.close()

    async def scenario():
        from post_office import Server

        server = await Server(answers=[silent]).start()
        host = f"127.0.0.1:{server.port}" if how != "bad name" else "999.1.1.1"
        desk.secrets["secret:env:U"] = f"http://canaryuser:canary-pw@{host}/canary-path-1?token=canary-token"
        sink = desk.sink()
        outcome = await sink.deliver(desk.delivery({"url": "secret:env:U"}, timeout_ms=500 if how == "timeout" else 60_000))
        await sink.close()
        await server.stop()
        return outcome

    import asyncio

    outcome = asyncio.run(scenario())
    assert "canary" not in repr(outcome), outcome
    if how == "answer":
        assert "canary-path-1" in desk.secrets["line"]


def test_a_plain_url_is_shown_without_its_query(desk):
    """B129: an error quotes the URL without user and query."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}/hook?token=s3cr3t-D"
        outcome = desk.one(settings={"url": url})
    assert isinstance(outcome, Failed)
    assert "s3cr3t-D" not in repr(outcome)
    assert "/hook" in outcome.reason
    assert shown_url("https://u:s3cr3t-C@h.test/a?token=s3cr3t-D", secret=False) == "https://h.test/a"
    assert shown_url("http://[::1]:80/a", secret=True) == "http://[::1]:80"


def test_a_secret_that_cannot_be_had_fails_without_sending(desk):
    """A secret that is not there now may be there at the next try."""
    outcomes, server = desk.run(OK, settings={"bearer": "secret:env:NONE"})
    assert (outcomes[0].facts["error"], outcomes[0].retryable, outcomes[0].undelivered) == ("secret", True, True)
    assert server.requests == []


def test_an_error_of_our_own_shows_no_secret():
    """Even a mistake of the client itself is told without the secrets that were in its words."""
    desk = Desk(secrets={"secret:env:T": "canary-token-1"})

    class Broken:
        async def handle_async_request(self, request):
            raise RuntimeError(f"cannot send {request.headers['authorization']}")

    outcomes, _ = desk.run(OK, settings={"bearer": "secret:env:T"}, sink={"transports": lambda identity: Broken()})
    assert outcomes[0].facts["error"] == "plugin_error"
    assert "RuntimeError" in outcomes[0].facts["traceback"]
    assert "canary" not in repr(outcomes[0])
