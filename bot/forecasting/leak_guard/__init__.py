"""Four layers that keep information from after the cutoff out of a forecast; each counts what it removed."""
