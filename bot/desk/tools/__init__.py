"""The tools of the desk, one module for each family."""
