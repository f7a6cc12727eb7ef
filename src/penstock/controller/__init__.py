"""What the active controller decides: commands in, metadata records and a reply out."""
