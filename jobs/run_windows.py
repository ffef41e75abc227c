"""Under spark-submit: `spark-submit jobs/run_windows.py job.yaml`, like `backfill run job.yaml`."""

import sys

from backfill.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "run")
    sys.exit(main())
