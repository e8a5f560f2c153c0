"""The file of hosts whose pages give answers away."""

from importlib import resources

import pytest

HOSTS = [
    line
    for line in resources.files("plugins").joinpath("hosts.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]


@pytest.mark.parametrize(
    "host",
    [
        *("metaculus.com", "polymarket.com", "polymarket.us", "kalshi.com", "manifold.markets", "manifund.org"),
        *("metaforecast.org", "electionbettingodds.com", "forecastex.com", "nadex.com", "predictit.org"),
    ],
)
def test_where_people_bet_on_answers_is_known(host: str) -> None:
    assert host in HOSTS


def test_each_line_is_one_host_in_order() -> None:
    assert sorted(set(HOSTS)) == HOSTS
    for host in HOSTS:
        assert host == host.strip().lower()
        assert not set(host) & set("/: *")
        assert not host.startswith(("www.", "."))
        assert "." in host
