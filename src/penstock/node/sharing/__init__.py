"""The share groups' partitions that are led here (KIP-932), what fetches of them, and who writes down how far it is."""
