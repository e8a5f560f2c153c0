"""Fetching pages of the open web, guarded against everything that is not the open web."""
