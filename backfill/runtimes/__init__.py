"""What a job can run on besides Spark, and what is done without what another runtime lacks.

A command's help lists the names, before anything of Spark is imported.
"""

#: What a session in this process can run on.
RUNTIMES = ("spark", "sail")
