"""The JVM that Spark runs on: its Java, options, classes and jars."""
