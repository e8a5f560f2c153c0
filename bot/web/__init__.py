"""What a running daemon shows to others over HTTP: its health and its metrics. Nothing here changes anything."""
