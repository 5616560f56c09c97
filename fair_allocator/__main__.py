"""`python -m fair_allocator` is the command line."""

import sys

from fair_allocator.cli import main

if __name__ == "__main__":
    sys.exit(main())
