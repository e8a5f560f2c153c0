"""Search engines, one file each; they share ``_search_results``, and none knows another."""
