"""`python -m paper` is `reshuffle reproduce`."""

import sys

from reshuffle.cli import main

if __name__ == "__main__":
    sys.exit(main(["reproduce", *sys.argv[1:]]))
