"""Quotas of clients: of whom they may be, which of them holds for a client, and how much of it is left."""
