"""One computation of what several models on a stream have in common (MCDNN, section 5.2.2)."""
