cross join lateral (
    select json_build_object(
        'number', c.generation, 'kind', c.kind, 'after_depth', c.after_depth, 'through_depth', c.through_depth,
        'through_message_id', c.through_message_id, 'active', c.active, 'summary', c.summary,
        'token_count', c.token_count, 'prompt_version', c.prompt_version, 'model', c.model,
        'created_at', c.created_at, 'left_out', c.left_out, 'taken', c.taken, 'observations', (
            select coalesce(json_agg(json_build_object(
                'id', o.id, 'at', o.observed_at, 'marker', o.marker, 'text', o.content, 'parent_id', o.parent_id)
                order by o.position), '[]')
            from observations o where o.thread_id = c.thread_id and o.generation = c.generation)) as told
) g
