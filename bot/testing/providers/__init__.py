"""Strict doubles of model providers: real HTTP on loopback, with a memory, refusing what the real services refuse."""
