-- Access methods of indexes and operator classes.
create table im (id int primary key, j jsonb, a int[], t text, ts timestamptz default '2024-01-01', ip inet)
insert into im values (1, '{"a":1,"b":[1,2]}', '{1,2}', 'hello world', '2024-01-02', '10.0.0.1'), (2, '{"a":2}', '{2,3}', 'foo', '2024-01-03', '10.0.0.2')
create index im_j on im using gin (j)
create index im_jp on im using gin (j jsonb_path_ops)
create index on im using gin (a)
create index im_brin on im using brin (ts) with (pages_per_range = 32)
create index im_brin2 on im using brin (ts timestamptz_minmax_ops, id)
create index im_hash on im using hash (t)
create index im_e on im using gin ((j -> 'b')) where id > 0
create index im_t on im using gin (t gin_trgm_ops)
create index im_t on im using gin (t)
create index im_id on im using gin (id)
create index im_s on im using spgist (t)
create index im_x on im using nope (t)
create unique index im_u on im using gin (j)
create unique index im_u on im using hash (t)
create index im_u on im using hash (t, id)
create index im_d on im using gin (j desc)
create index im_c on im using gin (j nope_ops)
create index im_c on im using gin (t jsonb_ops)
create extension pg_trgm
create index im_t on im using gin (t gin_trgm_ops)
create index im_tg on im using gist (t gist_trgm_ops)
create extension btree_gin
create index im_bg on im using gin (id, j)
create index if not exists im_j on im using gin (j)
create index im_j on im using gin (j)
select indexname, indexdef from pg_indexes where tablename = 'im' and indexname not in ('im_brin', 'im_e') order by 1
select c.relname, am.amname from pg_class c join pg_am am on am.oid = c.relam where c.relname like 'im\_%' and c.relkind = 'i' order by 1
select id from im where j @> '{"a":1}'
select id from im where a && array[3] order by 1
select id from im where j ? 'b'
select id from im where t = 'foo'
select id from im where ts > '2024-01-02 12:00' order by ts
alter index im_j rename to im_jj
comment on index im_jj is 'a comment'
select obj_description('im_jj'::regclass)
alter table im rename column j to doc
select indexdef from pg_indexes where indexname in ('im_jj', 'im_jp') order by 1
drop index im_jp
alter table im drop column doc
select indexname from pg_indexes where tablename = 'im' order by 1
drop index im_hash, im_t
drop index im_jj
drop table im
select count(*) from pg_class where relname like 'im\_%'
select amname, amtype from pg_am where amname in ('btree','hash','gist','gin','spgist','brin','heap') order by 1
