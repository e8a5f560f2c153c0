"""Foxcast: an always-on forecaster for prediction markets and forecasting tournaments."""
