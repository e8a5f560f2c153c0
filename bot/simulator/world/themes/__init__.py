"""Question templates by theme; all texts and names are invented."""
