"""The demo: a hidden world, the real service on a real log, and a rival beside it."""
