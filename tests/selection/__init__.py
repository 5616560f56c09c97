"""The rule of selection, held against an oracle of its own and against adversaries."""
