"""Core values, interfaces and small tools that every other room uses.

Nothing here imports another room, and nothing but the clock and the registry of secrets has state.
"""
