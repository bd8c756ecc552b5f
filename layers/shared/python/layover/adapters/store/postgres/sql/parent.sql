        -- Of a message `m`: where it is not stored, it is the message before it on its branch.
        coalesce(m.parent_id, (
            select p.id from messages p
            where p.thread = m.thread and p.branch_id = m.branch_id and p.depth = m.depth - 1)) as parent_id
