"""The command `backfill`, for `python -m backfill`."""

import sys

from backfill.cli import main

sys.exit(main())
