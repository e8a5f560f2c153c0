"""The tools of a trial, one module for each family."""
