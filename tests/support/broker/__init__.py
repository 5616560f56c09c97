"""A real broker for the tests."""
