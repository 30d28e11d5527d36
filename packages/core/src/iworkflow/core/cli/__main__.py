"""`python -m iworkflow.core.cli` is the command `iworkflow`."""

import sys

from iworkflow.core.cli import main

if __name__ == "__main__":
    sys.exit(main())
