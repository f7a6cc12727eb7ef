"""Commands about where replicas are, who leads them and what they hold."""
