-- Columns that get another type although expressions and predicates of indexes name them.
create table ct (id int primary key, a int, b text, state text default 'new')
insert into ct select n, n, n::text, case when n % 2 = 0 then 'done' else 'new' end from generate_series(1, 10) n
create index ct_part on ct (id) where a > 5
create unique index ct_expr on ct ((a + 1)) where state = 'new'
create index ct_plain on ct (a desc, lower(b))
comment on index ct_part is 'kept'
alter table ct alter a type bigint
select indexname, replace(replace(indexdef, '(5)::bigint', '5'), '(1)::bigint', '1') from pg_indexes where tablename = 'ct' and indexname = 'ct_plain'
select indexname from pg_indexes where tablename = 'ct' order by 1
select obj_description('ct_part'::regclass)
select id from ct where a > 5 and id < 8 order by id
insert into ct values (11, 1, 'x')
alter table ct alter b type varchar(20)
alter table ct alter a type text using a::text
select count(*) from ct
select uuid_in(md5('x')::cstring), uuid_in('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), uuid_in(overlay(overlay(md5('y') placing '4' from 13) placing '8' from 17)::cstring)
select 'abc'::text::cstring
create table gid (id int, pk uuid default uuid_in(overlay(overlay(md5('a' || ':' || 'b') placing '4' from 13) placing 'a' from 17)::cstring))
insert into gid (id) values (1) returning pk
