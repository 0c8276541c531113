"""OpenAI's calls for programs."""
