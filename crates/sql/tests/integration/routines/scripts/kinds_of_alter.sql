# ALTER INDEX, ALTER VIEW and ALTER MATERIALIZED VIEW.
create table st (a int primary key, b int)
create index sti on st (b)
create materialized view sm as select 1 as x
create view sv as select 1 as x
alter index sti set (fillfactor = 50)
alter index sti reset (fillfactor)
alter index sti set tablespace pg_default
alter index nosuch set (fillfactor = 50)
alter index if exists nosuch set (fillfactor = 50)
alter index st set (fillfactor = 50)
alter index sti set (nosuch = 50)
create index ste on st ((a + b))
alter index ste alter column 1 set statistics 10
alter view st set (security_barrier)
alter view sv set (security_barrier)
alter materialized view sm set (fillfactor = 50)
select reloptions from pg_class where relname = 'sm'
alter materialized view sm reset (fillfactor)
select reloptions from pg_class where relname = 'sm'
alter materialized view sm set tablespace pg_default
alter materialized view sm set without cluster
alter materialized view sm alter column x set statistics 10
alter materialized view sm alter x set storage plain
alter materialized view sm rename column x to y
alter materialized view st set (fillfactor = 50)
alter materialized view sv set (fillfactor = 50)
alter materialized view sm add column z int
alter materialized view sm set unlogged
alter view st rename column a to aa
alter view sm rename column y to x
select aa from st
select x from sm
create index on st using btree (b) with (fillfactor = 70, deduplicate_items = off)
create index on st using hash (b) with (fillfactor = 70)
create materialized view sm2 using heap with (fillfactor = 50) tablespace pg_default as select 1 as x with no data
select reloptions from pg_class where relname = 'sm2'
create materialized view sm3 (z) as select 1
select z from sm3
create table st2 (a int primary key with (fillfactor = 70), unique (a) with (fillfactor = 70)) with (fillfactor = 70)
create materialized view sm4 with (nosuch = 1) as select 1 as x
