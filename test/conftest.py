"""Settings of all tests."""

from hypothesis import settings

# A slow or busy machine must not fail a test: time belongs in benchmarks.
settings.register_profile("cacheinf", deadline=None)
settings.load_profile("cacheinf")
