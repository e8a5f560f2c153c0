"""Fake venues: servers over real loopback HTTP and WebSocket that behave as the venues' documents say."""
