"""Search engines, one file each; none knows of another."""
