"""`python -m reshuffle` is `reshuffle`."""

import sys

from reshuffle.cli import main

if __name__ == "__main__":
    sys.exit(main())
