"""The demo: a simulated world, and the real Foxcast in it, for the first minute of somebody new; see ``__main__``."""
