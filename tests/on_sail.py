"""Whether tests run on the runtime Sail (`make test-sail`) rather than on Spark."""

from __future__ import annotations

import os

ON_SAIL = os.environ.get("BACKFILL_RUNTIME") == "sail"
