"""The only path to a venue.

Every write is recorded before it is sent, its outcome may be unknown, and nothing is sent twice on a guess.
"""
