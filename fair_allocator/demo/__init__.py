"""The demo: simulated workers, the real service on a real log, and LFG for comparison."""
