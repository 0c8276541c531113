"""The page: what Chainlit calls, and what stands around it."""
