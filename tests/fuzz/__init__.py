"""Inputs that nobody would send: events of every kind, many of them damaged."""
