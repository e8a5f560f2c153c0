"""Strict fakes of model providers: real HTTP on loopback, with a memory. They refuse what the real services refuse."""
