"""Search engines, one file each; what they share is in ``_results``, and none knows of another."""
