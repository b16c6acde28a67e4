"""Joules per frame: measured by the machine's own meters, else by a power model."""
