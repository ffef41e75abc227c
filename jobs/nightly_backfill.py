"""Under spark-submit: the dates that have events and were never computed, a run for each week.

    spark-submit jobs/nightly_backfill.py job.yaml [--date yesterday]

Like `backfill run job.yaml --missing --chunk 7d`, with the same exit codes and options. Every night
at two:

    0 2 * * *  spark-submit /srv/jobs/nightly_backfill.py /srv/job.yaml --date yesterday
"""

import sys

from backfill.cli import main

if __name__ == "__main__":
    # Options may be written together with their values, as in --date=yesterday.
    given = {argument.partition("=")[0] for argument in sys.argv[1:]}
    missing = [] if given & {"--date", "--from", "--missing"} else ["--missing"]
    chunk = ["--chunk", "7d"] if missing and "--chunk" not in given else []
    sys.exit(main(["run", *sys.argv[1:], *missing, *chunk]))
