"""Under spark-submit: what arrived since the last run, merged into the published windows.

    spark-submit jobs/recompute_late.py job.yaml [--late PATH]

Like `backfill recompute job.yaml`, with the same exit codes. Every hour on the hour:

    0 * * * *  spark-submit /srv/jobs/recompute_late.py /srv/job.yaml
"""

import sys

from backfill.cli import main

if __name__ == "__main__":
    sys.exit(main(["recompute", *sys.argv[1:]]))
