"""Reading pages: the bytes of a hostile web to the text that a person would see, in a process of its own."""
