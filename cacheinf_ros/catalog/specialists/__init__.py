"""Small classifiers for the classes that a stream shows now (MCDNN, section 5.2.1)."""
