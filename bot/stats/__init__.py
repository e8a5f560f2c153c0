"""Scores, aggregation, calibration, statistics and time-series models: pure functions on arrays.

Nothing here reads a file, a clock or a database, and random numbers come only from a Generator argument.
"""
