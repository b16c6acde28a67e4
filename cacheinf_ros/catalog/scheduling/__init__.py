"""Which variant serves a request, and where: MCDNN's algorithm 1, and days that are simulated with it."""
