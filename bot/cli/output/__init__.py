"""How answers look: tables and text for people, JSON for programs."""
