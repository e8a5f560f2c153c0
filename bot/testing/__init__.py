"""Test kits and fakes for plugin authors; shipped with the engine and never imported by it."""
