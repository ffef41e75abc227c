"""One decoder for Kafka's records, one for rows of columns; what they share."""
