"""Under spark-submit: the dates that have events and were never computed, a run for each week.

    spark-submit jobs/nightly_backfill.py job.yaml [--date yesterday]

As `backfill run job.yaml --missing --chunk 7d`, with the same exit codes. Every night at two:

    0 2 * * *  spark-submit /srv/jobs/nightly_backfill.py /srv/job.yaml --date yesterday
"""

import sys

from backfill.cli import main

if __name__ == "__main__":
    selected = {"--date", "--from", "--missing"} & set(sys.argv)
    sys.exit(main(["run", *sys.argv[1:], *([] if selected else ["--missing", "--chunk", "7d"])]))
