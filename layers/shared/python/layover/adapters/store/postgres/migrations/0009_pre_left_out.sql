-- The messages up to a generation's last one that it does not stand for, because their runs waited, and those that were
-- left out before and that it stands for.
alter table compactions add column left_out text[] not null default '{}';
alter table compactions add column taken text[] not null default '{}';
