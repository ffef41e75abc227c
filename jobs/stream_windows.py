"""Under spark-submit: the same job as Structured Streaming queries, until the source is drained.

    spark-submit jobs/stream_windows.py job.yaml --to stream_out

Like `backfill stream job.yaml --to stream_out`, with the same exit codes.
"""

import sys

from backfill.cli import main

if __name__ == "__main__":
    sys.exit(main(["stream", *sys.argv[1:]]))
