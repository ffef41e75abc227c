"""Plans that Spark interprets, for what runs once on few rows.

A run has dozens of plans, and to compile one takes longer than to run it then. Operators,
expressions and a whole job are tested as Spark does it by default, compiled.
"""

SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
