"""What `readonce bench` measures above the engine."""
