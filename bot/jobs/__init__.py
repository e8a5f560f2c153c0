"""One module per job: what the daemon does, without knowing when."""
