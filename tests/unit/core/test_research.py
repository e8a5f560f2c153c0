from datetime import date

import pytest

from bot.core.research import TimeSeries

DAYS = (date(2026, 1, 1), date(2026, 1, 2))


def test_a_series_has_a_value_for_each_date() -> None:
    with pytest.raises(ValueError, match="rain: 2 dates for 1 values"):
        TimeSeries(name="rain", unit="mm", source="gauge", dates=DAYS, values=(3.0,))
    assert TimeSeries(name="rain", unit="mm", source="gauge", dates=DAYS, values=(3.0, 0.0)).values[1] == 0.0
