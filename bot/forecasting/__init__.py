"""How a forecast is made.

Trials, the tools and models that a trial may use, its record, its leak guard, and the pooling of its answers.
"""
