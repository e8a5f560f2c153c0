"""Four layers that keep what came after the cutoff away from a forecast, each counting what it caught."""
