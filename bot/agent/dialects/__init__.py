"""How a model is asked for a move, and how its answer becomes one: native tool calls, or one JSON object."""
