        -- Of `e`, a row of message_embeddings: its message.
        select m.id, e.thread_id, m.run_id,
-- include: parent.sql
               , m.role, m.content, m.created_at, m.model_output, m.provider_state, m.token_count
        from messages m
        where m.thread = e.thread and m.branch_id = e.branch_id and m.depth = e.depth
        offset 0
