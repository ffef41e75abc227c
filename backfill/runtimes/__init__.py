"""The runtimes besides Spark that a job can run on, and workarounds for what they lack.

A command's help lists their names, without importing Spark.
"""

#: What a session in this process can run on.
RUNTIMES = ("spark", "sail")
