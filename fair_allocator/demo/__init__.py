"""The demo: a simulated world, the real service on a real log, and a rival for comparison."""
