"""The demo: a hidden world, the real service on a real log, and plain UCB1 beside it."""
