"""The commands of `readonce`, a file each."""
