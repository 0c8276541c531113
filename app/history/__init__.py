"""Chats that last."""
