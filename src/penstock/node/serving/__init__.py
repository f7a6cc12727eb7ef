"""Sockets, connections and frames: how requests come in, reach their handler, and how answers leave."""
