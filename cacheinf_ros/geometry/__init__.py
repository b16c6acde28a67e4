"""Warping and masked painting of images under a motion; below matching and engine."""
