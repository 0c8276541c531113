"""The documents in the browser: pages of our own beside the chat, drawn on the server, that work without script too."""
