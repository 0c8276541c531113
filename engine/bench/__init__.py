"""The benchmark: this engine, and a plain server beside it, asked the same things."""
