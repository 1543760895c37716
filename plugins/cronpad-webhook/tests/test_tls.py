"""TLS against a real server: private authorities, client certificates, and what is refused."""

from __future__ import annotations

import asyncio
import os
import ssl
from datetime import UTC, datetime

import pytest
import trustme
from post_office import Desk, Server

from cronpad_core.api import Delivered, Failed


@pytest.fixture(scope="module")
def authority():
    """A private authority."""
    return trustme.CA()


@pytest.fixture
def ca_file(authority, tmp_path):
    """Its certificate, as a file."""
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


def _server_context(authority, *names, **how):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names, **how).configure_cert(context)
    return context


def _deliver(context, settings, *, times=1, between=lambda: None):
    async def scenario():
        server = await Server().start(context)
        desk = Desk()
        sink = desk.sink()
        outcomes = []
        for _ in range(times):
            outcomes.append(await sink.deliver(desk.delivery({"url": server.url, **settings})))
            between()
        await sink.close()
        await server.stop()
        return outcomes, server

    return asyncio.run(scenario())


def test_a_private_authority_is_trusted_where_a_job_says_so(authority, ca_file):
    """With ``ca_file`` its server is reached; without, the same server is refused, retryable and known not delivered."""
    context = _server_context(authority, "127.0.0.1")
    outcomes, _ = _deliver(context, {"ca_file": ca_file})
    assert isinstance(outcomes[0], Delivered)
    outcomes, server = _deliver(context, {})
    assert isinstance(outcomes[0], Failed)
    assert (outcomes[0].facts["error"], outcomes[0].retryable, outcomes[0].undelivered) == ("tls", True, True)
    assert server.requests == []


@pytest.mark.parametrize(
    ("names", "how", "said"),
    [
        (["other.test"], {}, "mismatch"),
        (
            ["127.0.0.1"],
            {"not_before": datetime(2020, 1, 1, tzinfo=UTC), "not_after": datetime(2021, 1, 1, tzinfo=UTC)},
            "expired",
        ),
    ],
    ids=["name", "expired"],
)
def test_a_wrong_certificate_is_refused(authority, ca_file, names, how, said):
    """A certificate for another name, or one that has expired, is a failure that says so, and nothing is sent."""
    outcomes, server = _deliver(_server_context(authority, *names, **how), {"ca_file": ca_file})
    assert (outcomes[0].facts["error"], outcomes[0].retryable, server.requests) == ("tls", True, [])
    assert said in outcomes[0].reason


def test_old_versions_are_refused(authority, ca_file):
    """A server that knows nothing newer than TLS 1.1 is refused."""
    context = _server_context(authority, "127.0.0.1")
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    outcomes, server = _deliver(context, {"ca_file": ca_file})
    assert isinstance(outcomes[0], Failed)
    assert (outcomes[0].facts["error"] in ("tls", "connect"), outcomes[0].undelivered, server.requests) == (True, True, [])


def test_plain_http_at_a_tls_port_is_a_tls_failure(ca_file):
    """Something that speaks no TLS is a TLS failure, not a success and not an exception."""

    async def scenario():
        server = await Server().start()
        desk = Desk()
        sink = desk.sink()
        settings = {"url": server.url.replace("http:", "https:"), "ca_file": ca_file}

        async def babble(reader, writer):
            writer.write(b"220 mail.example.com ESMTP\r\n")
            await writer.drain()
            writer.close()

        plain = await asyncio.start_server(babble, "127.0.0.1", 0)
        settings["url"] = f"https://127.0.0.1:{plain.sockets[0].getsockname()[1]}/"
        outcome = await sink.deliver(desk.delivery(settings))
        await sink.close()
        plain.close()
        await server.stop()
        return outcome

    outcome = asyncio.run(scenario())
    assert (outcome.facts["error"], outcome.undelivered) == ("tls", True)


def test_a_client_certificate_is_shown(authority, ca_file, tmp_path):
    """A server that asks for a certificate gets the job's; without one the request fails."""
    context = _server_context(authority, "127.0.0.1")
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    cert, key = tmp_path / "client.pem", tmp_path / "client.key"
    issued = authority.issue_cert("client@example.com")
    issued.private_key_pem.write_to_path(str(key))
    for number, blob in enumerate(issued.cert_chain_pems):
        blob.write_to_path(str(cert), append=number > 0)
    outcomes, _ = _deliver(context, {"ca_file": ca_file, "client_cert": str(cert), "client_key": str(key)})
    assert isinstance(outcomes[0], Delivered)
    outcomes, server = _deliver(context, {"ca_file": ca_file})
    assert isinstance(outcomes[0], Failed)
    assert server.requests == []


def test_a_file_that_is_missing_is_a_failure_without_sending(tmp_path):
    """A certificate that is not there fails the run, retryable, before anything is sent."""
    outcomes, _ = _deliver(None, {"ca_file": str(tmp_path / "none.pem")})
    assert (outcomes[0].facts["error"], outcomes[0].retryable, outcomes[0].undelivered) == ("certificate", True, True)


def test_a_renewed_authority_is_read_again(authority, ca_file):
    """A file that was written anew is read anew: a delivery after the change trusts what it says then."""
    context = _server_context(authority, "127.0.0.1")
    stamps = iter([1_700_000_000, 1_700_000_100])

    def renew():
        trustme.CA().cert_pem.write_to_path(ca_file)
        os.utime(ca_file, (next(stamps),) * 2)

    outcomes, _ = _deliver(context, {"ca_file": ca_file}, times=2, between=renew)
    assert isinstance(outcomes[0], Delivered)
    assert outcomes[1].facts["error"] == "tls"
