"""The decisions of the operator, read from config.toml and the environment and validated as a whole."""
