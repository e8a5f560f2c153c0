"""The network: HTTP clients for reads and for writes, WebSockets, rate limits, and guarded reading of the open web."""
