"""A venue whose forecasts become orders says what they cost."""

from dataclasses import replace

import pytest

from bot.core.plugin_specs import VenueSpec
from tests.unit.fake_exchange import foxcast_venues


def test_a_venue_with_a_planner_and_without_fees_is_refused() -> None:
    (spec,) = foxcast_venues()
    assert isinstance(replace(spec, planner=None, fees=None), VenueSpec)
    with pytest.raises(ValueError, match="bourse: a venue with a planner needs fees, such as"):
        replace(spec, fees=None)
