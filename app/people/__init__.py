"""People, what they may, and what was done."""
