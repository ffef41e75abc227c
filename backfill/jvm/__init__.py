"""The JVM that Spark runs on: which Java, with which options, classes and jars."""
