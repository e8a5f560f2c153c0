"""Fetching pages of the open web, guarded against addresses inside this machine or its network."""
