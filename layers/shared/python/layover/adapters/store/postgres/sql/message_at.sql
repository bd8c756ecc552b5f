        -- Of `e`, a row of message_embeddings: its message.
        select m.id, e.thread_id, {m.messages}, {m.unseen}, m.provider_state,
-- include: parent.sql
        from messages m
        where m.thread = e.thread and m.branch_id = e.branch_id and m.depth = e.depth
        offset 0
