-- What is remembered beyond messages.

-- name: record_extraction
-- The row of the run goes in with the results, or nothing does. Answers whether it did.
with done as (
    insert into extractions (run_id, thread_id)
    select %(run_id)s, t.id from threads t where t.id = %(thread_id)s and t.deleted_at is null
    on conflict on constraint extractions_pkey do nothing
    returning run_id
),
titled as (
    update threads t set title = %(title)s from done
    where t.id = %(thread_id)s and t.title is null and %(title)s::text is not null
),
counted as (
    update messages m set token_count = c.value::integer
    from done, json_each_text(%(token_counts)s::json) c
    where m.thread_id = %(thread_id)s and m.id = c.key and m.token_count is distinct from c.value::integer
)
select count(*) from done
