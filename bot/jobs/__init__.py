"""One module per job: what the daemon does. When it does it is decided elsewhere."""
