insert into usage (run_id, step, kind, agent, model, input_tokens, output_tokens, cached_input_tokens,
                   cache_write_input_tokens, reasoning_tokens, cost_usd, at)
select u.run_id, u.step, u.kind, u.agent, u.model, u.input_tokens, u.output_tokens, u.cached_input_tokens,
       u.cache_write_input_tokens, u.reasoning_tokens, u.cost_usd, u.at
from json_to_recordset(%(usage)s::json) as u (
    run_id text, step text, kind text, agent text, model text, input_tokens bigint, output_tokens bigint,
    cached_input_tokens bigint, cache_write_input_tokens bigint, reasoning_tokens bigint, cost_usd numeric,
    at timestamptz)
