"""The demo: a simulated world, and the real Foxcast in it."""
