"""The simulator: a world of questions, doubles of venues and providers, the demo and the laboratory."""
