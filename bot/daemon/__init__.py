"""The daemon: what runs when, how it watches over itself, and how it ends. ``serve`` is the place to start reading."""
