"""Every configuration key that Kafka 4 knows, how its values are checked, and which value holds where."""
