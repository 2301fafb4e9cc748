"""Problems that nothing can be tuned to: a new seed every time the suite runs, told where a check fails."""

import os
import secrets
import sys


def fresh_seed() -> int:
    """A new seed, or that of the environment variable WIDEMARGIN_TEST_SEED, to run a failure again."""
    seed = int(os.environ.get("WIDEMARGIN_TEST_SEED", secrets.randbits(32)))
    sys.stdout.write(f"WIDEMARGIN_TEST_SEED={seed}\n")  # pytest shows it where the test fails
    return seed
