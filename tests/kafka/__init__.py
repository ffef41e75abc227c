"""Topics of Kafka, with a broker."""
