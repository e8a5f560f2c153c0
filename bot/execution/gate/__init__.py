"""Decides in code whether a forecast or an order may be submitted. No forecaster can reach this code."""
