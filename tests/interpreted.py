"""Plans that Spark interprets and does not change on the way, for what runs once on few rows.

A run has dozens of plans, and to compile one, or to plan it again after each of its stages, takes
longer than to run it. Nor does Spark check what each of its own rules made of a plan, which takes a
twentieth of the CPU time. Operators, expressions and a whole job are tested as Spark does it by
default.
"""

SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
}
