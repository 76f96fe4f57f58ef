"""The address guard: the networks to which a server may direct its clients."""

from __future__ import annotations

from ipaddress import ip_network

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


SPECIAL: dict[Network, tuple[str, ...]] = {
    "loopback": ("127.0.0.0/8", "::1/128"),
    "private": ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
    "other": (
        *("0.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "192.0.0.0/29", "192.0.0.8/32", "192.0.0.9/32"),
        *("192.0.0.10/32", "192.0.0.170/32", "192.0.0.171/32", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24"),
        *("192.88.99.0/24", "192.88.99.2/32", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        *("224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32"),
        *("::/128", "::/8", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23", "2001::/32"),
        *("2001:1::1/128", "2001:1::2/128", "2001:1::3/128", "2001:2::/48", "2001:3::/32", "2001:4:112::/48"),
        *("2001:10::/28", "2001:20::/28", "2001:30::/28", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20"),
        *("5f00::/16", "4000::/3", "e000::/4", "fe00::/9", "fe80::/10", "fec0::/10", "ff00::/8"),
    ),
}
"""The blocks of the IANA's registries of special-purpose addresses, with multicast and reserved addresses."""


@pytest.mark.parametrize(("network", "block"), [(name, block) for name, blocks in SPECIAL.items() for block in blocks])
def test_no_address_of_a_special_purpose_block_is_public_in_any_version_of_python(network: Network, block: str) -> None:
    addresses = ip_network(block)

    for address in (addresses[0], addresses[addresses.num_addresses // 2], addresses[-1]):
        assert network_of(str(address)) == network


@pytest.mark.parametrize(
    "address",
    [
        *("1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0"),
        *("172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.3.0", "192.167.255.255"),
        *("192.169.0.0", "198.17.255.255", "198.20.0.0", "203.0.112.255", "203.0.114.0", "223.255.255.255"),
        *("2001:200::", "2001:db7:ffff::", "2001:db9::", "2003::", "2620:4f:7fff:ffff::", "2620:4f:8001::"),
        *("3ffe:ffff::", "3fff:1000::", "2000::", "2002:808:808::1"),
    ],
)
def test_the_neighbours_of_special_purpose_blocks_are_public(address: str) -> None:
    assert network_of(address) == "public"


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
