"""Runs whole nodes and clients on virtual time, from a seed, with faults: see docs/simulation.md."""

from penstock.testing.simulator.run import Outcome, simulate

__all__ = ["Outcome", "simulate"]
