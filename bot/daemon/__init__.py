"""The daemon: what runs when, how it watches its own health, and how it ends. Start reading at service."""
