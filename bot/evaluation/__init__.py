"""Evaluation of forecasts: backtests, replay, explanations, comparisons and reports."""
