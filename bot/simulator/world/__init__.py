"""A simulated world: random walks, questions about them, crowd prices, and the press."""
