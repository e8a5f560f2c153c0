"""Composition: what config names is opened here, connected, and closed."""
