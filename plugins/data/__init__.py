"""Data sources, one file or folder each; they share ``_series_replies``, and none knows another."""
