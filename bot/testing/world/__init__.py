"""A simulated world: what moves in it, what becomes of it, what crowds pay for it and what the news say of it."""
