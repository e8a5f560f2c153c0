"""Where the daemon may listen: on this machine, or elsewhere with a token."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from bot.config.alert_schema import AlertsSection
from bot.config.loader import load_config
from bot.config.web_schema import WebSection


@pytest.mark.parametrize(
    ("listen", "address"),
    [("127.0.0.1:8420", ("127.0.0.1", 8420)), ("[::1]:80", ("::1", 80)), ("localhost:0", ("localhost", 0))],
)
def test_this_machine_needs_no_token(listen: str, address: tuple[str, int]) -> None:
    section = WebSection(listen=listen)
    assert (section.address, section.is_local) == (address, True)


@pytest.mark.parametrize("listen", ["0.0.0.0:8420", "[::]:8420", "192.0.2.7:80"])
def test_another_address_needs_a_token(listen: str) -> None:
    with pytest.raises(ValidationError, match="can be reached by others, so it needs token_file"):
        WebSection(listen=listen)
    assert not WebSection(listen=listen, token_file=Path("web.token")).is_local


@pytest.mark.parametrize(
    "listen", ["", "8420", ":8420", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:65536", "fox.example:80"]
)
def test_another_text_is_refused(listen: str) -> None:
    with pytest.raises(ValidationError, match=r"should (be|begin with)"):
        WebSection(listen=listen)


def test_the_token_file_is_relative_to_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[web]\nlisten = "0.0.0.0:8420"\ntoken_file = "web.token"\n')
    assert load_config(tmp_path / "config.toml").web.token_file == tmp_path / "web.token"


@pytest.mark.parametrize(
    ("hour", "end"),
    [(5, "2026-11-24T06:00"), (6, None), (12, None), (20, None), (21, "2026-11-25T06:00"), (22, "2026-11-25T06:00")],
)
def test_quiet_hours_end_in_their_time_zone(hour: int, end: str | None) -> None:
    from datetime import UTC, datetime

    # In winter Berlin is an hour ahead of UTC.
    section = AlertsSection(quiet_hours="22:00-07:00", time_zone="Europe/Berlin")
    found = section.quiet_until(datetime(2026, 11, 24, hour, 30, tzinfo=UTC))
    assert (None if found is None else f"{found:%Y-%m-%dT%H:%M}") == end


@pytest.mark.parametrize("hours", ["22:00", "x-y", "07:00-07:00", "25:00-07:00", "22:00+01:00-07:00"])
def test_other_quiet_hours_are_refused(hours: str) -> None:
    with pytest.raises(ValidationError, match="two different times"):
        AlertsSection(quiet_hours=hours)


@pytest.mark.parametrize("zone", ["Berlin", "../etc/passwd", "", "Europe/Nowhere"])
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(ValidationError, match="no time zone that this machine knows"):
        AlertsSection(time_zone=zone)
