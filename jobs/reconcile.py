"""Under spark-submit: a published table beside what the streaming operator wrote.

    spark-submit jobs/reconcile.py job.yaml sessions --html report.html --accept late,pending

Like `backfill reconcile job.yaml sessions …`, with the same exit codes: 1 if something differs for
a reason that is not accepted.
"""

import sys

from backfill.cli import main

if __name__ == "__main__":
    sys.exit(main(["reconcile", *sys.argv[1:]]))
