"""A disk that fails: each call of the embedded log on its files fails once."""
