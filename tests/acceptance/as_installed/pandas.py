"""Stands before pandas on the path of the command: users have none, and to load it takes a quarter of a second."""

message = "only the libraries that tests compare with need pandas"
raise ImportError(message)
