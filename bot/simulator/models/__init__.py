"""Simulated language models: rule-based forecasters behind a model's protocol, with configurable bad habits."""
