"""Science in the sandbox: forecasters on questions of a simulated world, where the truth is known."""
