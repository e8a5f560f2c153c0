"""Reads hostile web pages: from bytes to the text that a person would see, in a process of its own."""
