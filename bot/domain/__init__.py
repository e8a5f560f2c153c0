"""Frozen values of the forecasting domain: they check themselves, do no I/O and import nothing but each other."""
