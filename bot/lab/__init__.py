"""Tests of forecasters on the past: backtests, scoring of anyone's forecasts, and their reports."""
