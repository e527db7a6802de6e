-- What ALTER TABLE and CREATE TABLE say of storage and statistics.
create table st (a int, b text, c text) with (fillfactor = 70, autovacuum_enabled = false)
select reloptions from pg_class where relname = 'st'
alter table only st alter column a set (n_distinct = -0.5)
alter table only st alter column a set (n_distinct = 100, n_distinct_inherited = 7)
alter table st alter column b set statistics 500, alter column b set storage external, alter column c set compression pglz
select attname, attstattarget, attstorage, attcompression, coalesce('n_distinct=100' = any(attoptions), false) as is_set from pg_attribute where attrelid = 'st'::regclass and attnum > 0 order by attnum
alter table st alter column a reset (n_distinct)
select coalesce('n_distinct=100' = any(attoptions), false) as is_set, 'n_distinct_inherited=7' = any(attoptions) as is_kept from pg_attribute where attrelid = 'st'::regclass and attname = 'a'
alter table st alter column a set (nope = 1)
alter table st alter column zz set statistics 1
alter table st alter column a set storage external
alter table st alter column b set storage nope
alter table st alter column b set statistics -1
alter table st set (fillfactor = 80)
alter table st reset (autovacuum_enabled)
select reloptions from pg_class where relname = 'st'
create table gen (n int, c text, g text generated always as (c || ' x') stored, h text generated always as (n || ' y') stored)
