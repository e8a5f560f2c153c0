"""Plugins: how they are found, registered and checked."""
