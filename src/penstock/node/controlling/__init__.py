"""The active controller: its driver, and how brokers and their clients reach it wherever it is."""
