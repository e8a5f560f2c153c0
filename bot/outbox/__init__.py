"""The one path to a venue: write before wire, three outcomes instead of two, nothing resent on a guess."""
