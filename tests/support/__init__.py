"""What tests of several folders use, and what judges them; no tests."""
