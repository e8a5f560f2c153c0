"""Evaluation of forecasters and forecasts.

Backtests, scored files and reports, replays, comparisons, explanations and leak audits.
"""
