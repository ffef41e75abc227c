"""Topics of Kafka, whose records are copied into Delta tables; with confluent-kafka."""
