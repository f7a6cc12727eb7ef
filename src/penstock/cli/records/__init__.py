"""Commands about topics, and about the records in them."""
