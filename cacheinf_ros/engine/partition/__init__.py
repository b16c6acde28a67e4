"""All that the engine knows of two machines: which rows of each operator each computes, and what the other needs."""
