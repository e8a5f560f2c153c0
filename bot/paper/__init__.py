"""Paper books: what would have become of what leaves, at every venue in a file of its own."""
