"""What the operator decides: read from config.toml and the environment, checked whole, never changed while running."""
