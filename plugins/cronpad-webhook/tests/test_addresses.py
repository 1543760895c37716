"""Which addresses are reached: forbidden ones are never dialled, allowed ones are, on real sockets."""

from __future__ import annotations

import asyncio
import socket

import pytest
from post_office import OK, Server, answer

from cronpad_core.api import Delivered, Failed
from cronpad_webhook.addresses import Profile, forbidden, packed
from cronpad_webhook.clients import ClientFactory
from cronpad_webhook.guard import EgressRefused, Guard, GuardedResolver
from cronpad_webhook.host_settings import allowance

NEVER = [
    "0.0.0.0",
    "0.1.2.3",
    "169.254.0.1",
    "169.254.169.254",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "100.100.100.200",
    "192.0.0.192",
    "168.63.129.16",
    "::",
    "fe80::1",
    "fe80::1%eth0",
    "febf::1",
    "fec0::1",
    "ff02::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "::ffff:169.254.169.254",
    "::169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a9fe:a9fe",
    "64:ff9b:1:a9fe:a9:fe00::",
    "2002:a9fe:a9fe::1",
    "2001:0:a9fe:a9fe::1",
    "2001:0:808:808:0:0:5601:5601",
    "fd12::5efe:a9fe:a9fe",
    "2a00::200:5efe:a9fe:a9fe",
    "::ffff:0.0.0.0",
    "::ffff:100.100.100.200",
    "64:ff9b::a83f:8110",
    "::ffff:192.0.0.192",
    "2002:c000:c0::1",
]
"""Forbidden whoever asks: link-local, reserved, metadata, and each of them inside another address."""

PRIVATE = [
    "127.0.0.1",
    "127.9.9.9",
    "::1",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "100.127.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "fc00::1",
    "fd12::1",
    "2001:db8::1",
    "2001:2::1",
    "100::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::808:808",
    "2002:808:808::1",
    "2001:0:808:808:0:0:f7f7:f7f7",
]
"""Forbidden where several people write jobs."""

PUBLIC = [
    "8.8.8.8",
    "1.1.1.1",
    "172.32.0.1",
    "100.128.0.1",
    "2606:4700::1111",
    "2a00:1450::1",
    "64:ff9b::808:808",
    "::ffff:8.8.8.8",
]


class Dialler:
    """Makes sockets for addresses of loopback, and remembers all others instead of dialling them."""

    def __init__(self):
        self.asked = []

    def __call__(self, info):
        self.asked.append(info[4][0])
        raise OSError(101, "this dialler never dials")


def _deliver(desk, url, *, profile=Profile.SINGLE, lookup=None, dial=None, allow=(), answers=(OK,), settings=None):
    """One delivery; ``{port}`` in the URL is that of a server on loopback."""

    async def scenario():
        server = await Server(answers=list(answers)).start()
        how = {"dial": dial} if dial is not None else {}
        allowed = [allowance(one.format(port=server.port)) for one in allow]
        factory = ClientFactory(profile=profile, allowed=allowed, lookup=lookup, **how)
        sink = desk.sink(transports=factory.client)
        try:
            return await sink.deliver(desk.delivery({"url": url.format(port=server.port), **(settings or {})})), server
        finally:
            await factory.close()
            await sink.close()
            await server.stop()

    return asyncio.run(scenario())


def _bracketed(address):
    return f"[{address}]" if ":" in address else address


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("address", NEVER)
def test_some_addresses_are_never_dialled(desk, address, profile):
    """An address that nobody may reach is refused at connect, and not retried, for either profile."""
    dialler = Dialler()
    name = f"http://{_bracketed(address.partition('%')[0])}/"
    outcome, _ = _deliver(desk, name, profile=profile, dial=dialler)
    assert isinstance(outcome, Failed)
    assert (outcome.facts["error"], outcome.retryable, outcome.undelivered) == ("egress_policy", False, True)
    assert dialler.asked == []
    assert forbidden(packed(address), 80, profile=profile) is not None


@pytest.mark.parametrize("address", NEVER)
def test_no_allowance_reaches_them(address):
    """What is forbidden for everybody stays forbidden where everything is allowed."""
    everything = [allowance("0.0.0.0/0"), allowance("::/0")]
    assert forbidden(packed(address), 80, profile=Profile.MULTI, allowed=everything) is not None


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_refused_for_several(desk, address):
    """Profile multi refuses what is not public at connect; profile single dials it."""
    dialler = Dialler()
    outcome, _ = _deliver(desk, f"http://{_bracketed(address)}/", profile=Profile.MULTI, dial=dialler)
    assert (outcome.facts["error"], outcome.retryable, dialler.asked) == ("egress_policy", False, [])
    outcome, _ = _deliver(desk, f"http://{_bracketed(address)}/", dial=dialler)
    assert (outcome.facts["error"], len(dialler.asked)) == ("connect", 1)


@pytest.mark.parametrize("address", PUBLIC)
@pytest.mark.parametrize("port", [80, 443, 8080, 8443])
def test_public_addresses_are_dialled(desk, address, port):
    """Profile multi dials public addresses on the ports of the web."""
    dialler = Dialler()
    outcome, _ = _deliver(desk, f"http://{_bracketed(address)}:{port}/", profile=Profile.MULTI, dial=dialler)
    assert (outcome.facts["error"], len(dialler.asked)) == ("connect", 1)


@pytest.mark.parametrize("port", [1, 22, 25, 81, 6379, 65535])
def test_other_ports_are_refused_for_several(desk, port):
    """Profile multi reaches other ports only where they are allowed."""
    dialler = Dialler()
    outcome, _ = _deliver(desk, f"http://8.8.8.8:{port}/", profile=Profile.MULTI, dial=dialler)
    assert (outcome.facts["error"], dialler.asked) == ("egress_policy", [])
    _deliver(desk, f"http://8.8.8.8:{port}/", profile=Profile.MULTI, dial=dialler, allow=[f"8.8.8.0/24:{port}"])
    assert dialler.asked == ["8.8.8.8"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"])
def test_loopback_is_reached_by_single(desk, host):
    """Profile single reaches a server on this machine, by address, by name and by the mapped address."""
    outcome, server = _deliver(desk, f"http://{host}:{{port}}/")
    assert isinstance(outcome, Delivered)
    assert len(server.requests) == 1


def test_an_allowance_reaches_loopback(desk):
    """Profile multi reaches what the operator allows by network and port, and nothing beside it."""
    outcome, server = _deliver(desk, "http://127.0.0.1:{port}/", profile=Profile.MULTI, allow=["127.0.0.1:{port}"])
    assert isinstance(outcome, Delivered)
    assert len(server.requests) == 1
    outcome, server = _deliver(desk, "http://127.0.0.1:{port}/", profile=Profile.MULTI, allow=["127.0.0.1:9"])
    assert (outcome.facts["error"], server.requests) == ("egress_policy", [])


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f.1", "0177.0.0.1", "0x7f000001"])
def test_odd_ways_to_write_an_address_reach_nothing_by_multi(desk, host):
    """However loopback is written: refused as no URL, or at connect; never dialled, never retried."""
    dialler = Dialler()
    outcome, server = _deliver(desk, f"http://{host}:{{port}}/", profile=Profile.MULTI, dial=dialler)
    assert outcome.facts["error"] in ("bad_url", "egress_policy", "dns")
    assert (dialler.asked, server.requests) == ([], [])


def _named(*answers):
    """A lookup that gives these addresses, one list after the other, the last one for ever."""
    given = list(answers)

    def lookup(host, port, family):
        found = given.pop(0) if len(given) > 1 else given[0]
        kinds = [socket.AF_INET6 if ":" in one else socket.AF_INET for one in found]
        return [(kind, socket.SOCK_STREAM, 6, "", (one, port)) for kind, one in zip(kinds, found, strict=True)]

    return lookup


def test_one_forbidden_address_refuses_the_whole_name(desk):
    """A name with a public and a private address is refused; the public one is not picked out."""
    dialler = Dialler()
    lookup = _named(["8.8.8.8", "10.0.0.1"])
    outcome, _ = _deliver(desk, "http://mixed.test/", profile=Profile.MULTI, dial=dialler, lookup=lookup)
    assert (outcome.facts["error"], dialler.asked) == ("egress_policy", [])


def test_a_name_that_changes_its_answer_is_refused(desk):
    """B119: the name that was public when it was first asked about and loopback then is refused, without a connection."""

    async def scenario():
        server = await Server().start()
        dialler = Dialler()
        lookup = _named(["8.8.8.8"], ["127.0.0.1"])
        found = []
        for _ in range(2):
            factory = ClientFactory(
                profile=Profile.MULTI, lookup=lookup, dial=dialler, allowed=[allowance(f"8.8.8.8:{server.port}")]
            )
            sink = desk.sink(transports=factory.client)
            found.append(await sink.deliver(desk.delivery({"url": f"http://rebind.test:{server.port}/"})))
            await factory.close()
            await sink.close()
        await server.stop()
        return found, dialler.asked, server.requests

    (first, second), asked, requests = asyncio.run(scenario())
    assert (first.facts["error"], asked) == ("connect", ["8.8.8.8"])
    assert (second.facts["error"], second.retryable, requests) == ("egress_policy", False, [])


def test_a_change_between_check_and_connect_is_refused(desk, monkeypatch):
    """B119: where the resolver's own check saw another answer than the one that is connected to, the connection refuses."""
    real = GuardedResolver.resolve

    async def treacherous(self, host, port=0, family=socket.AF_UNSPEC):
        found = await real(self, host, port, family)
        return [{**one, "host": "169.254.169.254"} for one in found]

    monkeypatch.setattr(GuardedResolver, "resolve", treacherous)
    dialler = Dialler()
    outcome, _ = _deliver(desk, "http://rebind.test/", lookup=_named(["8.8.8.8"]), dial=dialler)
    assert (outcome.facts["error"], dialler.asked) == ("egress_policy", [])


@pytest.mark.parametrize("target", ["http://169.254.169.254/latest/", "http://[::ffff:169.254.169.254]/", "http://meta.test/"])
def test_a_redirect_to_a_forbidden_address_is_refused(desk, target):
    """A followed redirect goes through the same check: the metadata of a machine is not reached by way of a public server."""

    def lookup(host, port, family):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254" if host == "meta.test" else "127.0.0.1", port))]

    asked = []

    def dial(info):
        asked.append(info[4][0])
        return socket.socket(info[0], info[1], info[2])

    there = answer("307 Temporary Redirect", f"location: {target}")
    outcome, server = _deliver(
        desk, "http://hook.test:{port}/", lookup=lookup, dial=dial, answers=[there], settings={"redirects": 3}
    )
    assert (outcome.facts["error"], outcome.retryable) == ("egress_policy", False)
    assert (asked, len(server.requests)) == (["127.0.0.1"], 1)


def test_this_machines_own_addresses_are_refused_for_several(monkeypatch):
    """An address of an interface of this machine is refused by multi, however public it is."""
    monkeypatch.setattr("cronpad_webhook.guard.forbidden", lambda *_, **__: None)
    guard = Guard(profile=Profile.MULTI)
    with pytest.raises(EgressRefused, match="own"):
        guard.check(packed("127.0.0.1"), 80)
    guard.check(packed("198.51.100.7"), 80)


def test_a_name_that_hangs_is_given_up(desk, monkeypatch):
    """A lookup that does not answer ends as a failed lookup after its own limit, and the loop goes on meanwhile."""
    import threading

    over = threading.Event()
    monkeypatch.setattr("cronpad_webhook.guard._LOOKUP_S", 0.2)
    outcome, _ = _deliver(desk, "http://slow.test/", lookup=lambda *_: over.wait(60) or [])
    over.set()
    assert (outcome.facts["error"], outcome.retryable, outcome.undelivered) == ("dns", True, True)


def test_a_name_that_is_not_there_can_be_tried_again(desk):
    """NXDOMAIN is a failed lookup, known not to have been delivered."""

    def lookup(*_):
        raise socket.gaierror(-2, "Name or service not known")

    outcome, _ = _deliver(desk, "http://nowhere.test/", lookup=lookup)
    assert (outcome.facts["error"], outcome.retryable, outcome.undelivered) == ("dns", True, True)


def test_more_addresses_than_anybody_needs_are_left_away():
    """Of a name with hundreds of addresses sixteen are taken."""

    async def scenario():
        many = [f"8.8.{number // 256}.{number % 256}" for number in range(300)]
        return await GuardedResolver(Guard(profile=Profile.MULTI), lookup=_named(many)).resolve("many.test", 443)

    assert len(asyncio.run(scenario())) == 16


def test_proxies_of_the_environment_are_not_looked_at(desk, monkeypatch):
    """A proxy in the environment changes nothing."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    outcome, server = _deliver(desk, "http://127.0.0.1:{port}/")
    assert isinstance(outcome, Delivered)
    assert len(server.requests) == 1


def test_a_proxy_that_is_set_gets_every_request(desk):
    """With a proxy the request goes to it, whole, and the proxy decides about the address."""

    async def scenario():
        proxy = await Server().start()
        factory = ClientFactory(profile=Profile.MULTI, proxy=f"http://127.0.0.1:{proxy.port}")
        sink = desk.sink(transports=factory.client)
        outcome = await sink.deliver(desk.delivery({"url": "http://10.1.2.3/hook"}))
        await factory.close()
        await sink.close()
        await proxy.stop()
        return outcome, proxy.requests

    outcome, requests = asyncio.run(scenario())
    assert isinstance(outcome, Delivered)
    assert [one.line for one in requests] == ["POST http://10.1.2.3/hook HTTP/1.1"]
