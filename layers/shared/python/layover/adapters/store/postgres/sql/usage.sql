insert into usage (run_id, step, kind, agent, model, {usage}, cost_usd, at)
select u.run_id, u.step, u.kind, u.agent, u.model, {u.usage}, u.cost_usd, u.at
from json_to_recordset(%(usage)s::json) as u (
    run_id text, step text, kind text, agent text, model text, {usage:types}, cost_usd numeric, at timestamptz)
