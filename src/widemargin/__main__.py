"""`python -m widemargin` is the command line."""

import sys

from widemargin.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
