"""Providers of language models, one file each."""
