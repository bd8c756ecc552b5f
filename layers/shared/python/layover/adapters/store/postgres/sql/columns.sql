-- Columns that more than one query names (see `queries.py`). A new one is added here and in a migration.

-- columns: threads
-- What the owner of a thread says about it. Its title comes from elsewhere, too.
metadata jsonb

-- columns: messages
-- What every reader of a message sees.
run_id text, role text, content json, created_at timestamptz, refused boolean

-- columns: unseen
-- What makes prompts of a message. Its `provider_state` does, too, and is not in pages: it can be large.
model_output text, token_count integer

-- columns: usage
-- Counts of tokens. A sum of `cost_usd` is known only if every cost is.
input_tokens bigint, output_tokens bigint, cached_input_tokens bigint, cache_write_input_tokens bigint,
reasoning_tokens bigint

-- columns: entries
-- What the owner of an entry sees of it, next to its agent and its thread.
content text, source text, evidence text, verified boolean, created_at timestamptz, message_id text

-- columns: origins
-- Where an entry comes from.
hash text, extractor text, prompt_version text, model text

-- columns: attempts
task text, attempt integer, action text, result text, error text, diagnosis text, fix_applied text, run_id text,
created_at timestamptz
