"""OpenAI's Responses API: the second wire of `openai/`."""
