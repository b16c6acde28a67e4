"""Sessions with a server, sans-I/O: what to send, and what to make of the answers."""
