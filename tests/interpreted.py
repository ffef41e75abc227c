"""Settings for plans that run once on few rows: Spark interprets them, and does not change them.

A run has dozens of plans. Compiling one, or planning it again after each of its stages, takes
longer than running it. Spark does not check what each of its own rules made of a plan, either,
which takes a twentieth of the CPU time. Operators, expressions and a whole job are tested with
Spark's defaults.
"""

SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
}
