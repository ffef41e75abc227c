"""Copying records of Kafka topics into Delta tables; needs confluent-kafka."""
