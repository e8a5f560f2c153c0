"""The agent loop that model-based forecasters share.

Chat sessions, actions and their dialects, belief states and answer schemas.
"""
