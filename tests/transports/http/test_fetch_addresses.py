"""The address guard: the networks to which a server may direct its clients."""

from __future__ import annotations

import pytest

from tests.transports.http.resolver import FakeResolver
from trio_mcp.auth import CallFailed
from trio_mcp.transports.http._fetch import AddressGuard, Network, network_of

PUBLIC, PRIVATE, LOOPBACK, OTHER = "93.184.216.34", "10.0.0.1", "127.0.0.1", "169.254.169.254"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("8.8.8.8", "public"),
        ("2606:4700::1111", "public"),
        ("64:ff9b::808:808", "public"),
        ("10.1.2.3", "private"),
        ("172.16.0.1", "private"),
        ("172.32.0.1", "public"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "private"),
        ("fd00::1", "private"),
        ("::ffff:10.0.0.1", "private"),
        ("64:ff9b::a00:1", "private"),
        ("2002:a00:1::", "private"),
        ("127.0.0.1", "loopback"),
        ("127.255.0.9", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("64:ff9b::7f00:1", "loopback"),
        ("0.0.0.0", "other"),  # the unspecified address
        ("::", "other"),
        ("169.254.169.254", "other"),
        ("::ffff:169.254.169.254", "other"),
        ("fe80::1", "other"),
        ("fe80::1%eth0", "other"),
        ("fec0::1", "other"),
        ("224.0.0.1", "other"),
        ("ff02::1", "other"),
        ("240.0.0.1", "other"),
        ("255.255.255.255", "other"),
        ("192.0.2.1", "other"),
        ("198.18.0.1", "other"),
        ("2001:db8::1", "other"),
        ("::10.0.0.1", "other"),
        ("192.0.0.192", "other"),  # a metadata service
        ("192.88.99.1", "other"),
        ("3fff::1", "other"),
    ],
)
def test_each_address_belongs_to_a_network(address: str, expected: Network) -> None:
    assert network_of(address) == expected


def test_a_host_name_has_no_network() -> None:
    with pytest.raises(ValueError, match=r"127\.1"):
        network_of("127.1")


def address_guard(host: str | None = None, *, reached_at: str | None = None, named: str = "") -> AddressGuard:
    return AddressGuard([named], host, lambda: reached_at)


@pytest.mark.parametrize(
    ("host", "reached_at", "may_lead_to"),
    [
        (None, None, {PUBLIC}),
        ("mcp.test", None, {PUBLIC}),
        ("mcp.test", PUBLIC, {PUBLIC}),
        ("mcp.test", PRIVATE, {PUBLIC, PRIVATE}),
        ("mcp.test", LOOPBACK, {PUBLIC, PRIVATE, LOOPBACK}),
        ("mcp.test", OTHER, {PUBLIC}),
        ("mcp.test", "/run/a.sock", {PUBLIC}),
        ("192.168.1.2", PUBLIC, {PUBLIC, PRIVATE}),
        ("localhost", None, {PUBLIC, PRIVATE, LOOPBACK}),
        ("::1", None, {PUBLIC, PRIVATE, LOOPBACK}),
        (PUBLIC, LOOPBACK, {PUBLIC}),
        (OTHER, None, {PUBLIC}),
    ],
)
@pytest.mark.parametrize("address", [PUBLIC, PRIVATE, LOOPBACK, OTHER])
async def test_a_server_may_name_hosts_in_its_own_networks(
    host: str | None, reached_at: str | None, may_lead_to: set[str], address: str
) -> None:
    FakeResolver.install("as.test", [address, address])
    guard = address_guard(host, reached_at=reached_at)

    if address in may_lead_to:
        assert await guard.addresses("as.test", 443) == [address]
    else:
        with pytest.raises(CallFailed, match=rf"'as.test' has the address {address}, .* trusted_hosts"):
            await guard.addresses("as.test", 443)


@pytest.mark.parametrize("address", [PRIVATE, LOOPBACK, OTHER, "[::1]"])
async def test_a_literal_address_is_checked_as_well(address: str) -> None:
    with pytest.raises(CallFailed, match="may not name"):
        await address_guard().addresses(address.strip("[]"), 80)


@pytest.mark.parametrize("spelling", ["127.1", "2130706433", "0x7f000001", "0177.0.0.1"])
async def test_an_address_is_checked_in_every_spelling(spelling: str) -> None:
    with pytest.raises(CallFailed, match=r"has the address 127\.0\.0\.1"):
        await address_guard().addresses(spelling, 80)


async def test_one_forbidden_address_refuses_the_host() -> None:
    FakeResolver.install("as.test", [PUBLIC, PRIVATE])

    with pytest.raises(CallFailed, match=PRIVATE):
        await address_guard().addresses("as.test", 443)


async def test_a_host_that_the_user_has_named_may_have_any_address() -> None:
    resolver = FakeResolver.install("as.test", [OTHER])

    assert await address_guard(named="as.test").addresses("AS.test", 443) is None
    assert resolver.lookups == []


@pytest.mark.parametrize("host", ["unknown.test", "a" * 64 + ".test", "a%20b", "."])
async def test_a_host_that_is_not_found_has_no_addresses(host: str) -> None:
    FakeResolver.install("as.test", [PUBLIC])

    assert await address_guard().addresses(host, 443) == []
