"""Everything between a forecast and a venue.

The gate decides, the outbox submits, the paper book stands in for the venue.
"""
