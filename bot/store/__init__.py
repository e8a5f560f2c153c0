"""The ledger on disk: one SQLite file, one writing thread, a pool of readers.

``ledger`` opens it; each other module holds one family of tables or keeps the file safe.
"""
