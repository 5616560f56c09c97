"""Code that tests of several folders share, and checkers that judge their results."""
