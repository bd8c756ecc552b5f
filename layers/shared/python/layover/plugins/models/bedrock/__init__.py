"""Amazon Bedrock: Converse for most models, Chat Completions for OpenAI's (docs/deploy/bedrock.md)."""
