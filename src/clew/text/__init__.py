"""Turns values, sizes and counts into words. Never runs the user's code."""
