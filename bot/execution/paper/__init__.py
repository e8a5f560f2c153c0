"""Paper books: accounts and forecasts that are kept here instead of at the venue."""
