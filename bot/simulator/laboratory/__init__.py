"""Experiments with forecasters on questions of a simulated world, where the true probability is known."""
