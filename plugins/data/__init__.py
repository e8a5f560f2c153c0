"""Data sources, one file or folder each; what they share is in ``_reading``, and none knows of another."""
