"""What is asked in a simulated world, theme by theme; all texts are ours and nobody in them is real."""
