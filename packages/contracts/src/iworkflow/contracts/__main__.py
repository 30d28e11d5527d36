"""`python -m iworkflow.contracts` is the command."""

import sys

from iworkflow.contracts.cli import main

sys.exit(main())
