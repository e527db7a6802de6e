-- SEARCH and CYCLE of recursive queries.
create table graph (f int, t int, label text)
insert into graph values (1, 2, 'arc 1 -> 2'), (1, 3, 'arc 1 -> 3'), (2, 3, 'arc 2 -> 3'), (1, 4, 'arc 1 -> 4'), (4, 5, 'arc 4 -> 5')
with recursive r (f, t, label) as (select * from graph g union all select g.* from graph g, r where g.f = r.t) search depth first by f, t set seq select * from r order by seq
with recursive r (f, t, label) as (select * from graph g union distinct select g.* from graph g, r where g.f = r.t) search depth first by f, t set seq select * from r order by seq
with recursive r (f, t, label) as (select * from graph g union all select g.* from graph g, r where g.f = r.t) search breadth first by f, t set seq select * from r order by seq
with recursive r as (select f, t from graph where f = 1 union all select g.f, g.t from graph g join r on g.f = r.t) search breadth first by t set o select f, t, o from r order by o, f
with recursive r as (select 1 as n union all select n + 1 from r where n < 4) search depth first by n set o select * from r order by o
with recursive r (n) as (values (1) union all select n + 1 from r where n < 4) search breadth first by n set o select * from r order by o
insert into graph values (5, 1, 'arc 5 -> 1')
with recursive r (f, t, label) as (select * from graph g union all select g.* from graph g, r where g.f = r.t) cycle f, t set is_cycle using path select f, t, is_cycle, path from r order by path, f, t
with recursive r (f, t, label) as (select * from graph g union all select g.* from graph g, r where g.f = r.t) cycle f, t set is_cycle to 'Y' default 'N' using path select f, t, is_cycle from r order by path, f, t
with recursive r (f, t) as (select f, t from graph g where f = 1 union all select g.f, g.t from graph g, r where g.f = r.t) search depth first by f, t set seq cycle f, t set is_cycle to 1 default 0 using path select * from r order by seq
with recursive r (f, t) as (select f, t from graph g where f = 1 union all select g.f, g.t from graph g, r where g.f = r.t) search breadth first by f, t set seq cycle f, t set is_cycle using path select * from r order by seq
with recursive r as (select 1 as n union all select n from r) cycle n set c using p select * from r
with recursive r (a) as (select 1 union all select r.* from r where a < 3) cycle a set c using p select * from r
with r as (select 1 as n) search depth first by n set o select * from r
with recursive r as (select 1 as n) search depth first by n set o select * from r
with recursive r as (select 1 as n union all select n + 1 from r where n < 3) search depth first by x set o select * from r
with recursive r as (select 1 as n union all select n + 1 from r where n < 3) search depth first by n, n set o select * from r
with recursive r as (select 1 as n union all select n + 1 from r where n < 3) cycle x set c using p select * from r
with recursive r as (select 1 as n union all select n + 1 from r where n < 3) cycle n, n set c using p select * from r
with recursive r as (select 1 as n union all select n + 1 from r where n < 3) cycle n set c using c select * from r
with recursive r as (select 1 as n union all select n + 1 from r where n < 3) search depth first by n set o cycle n set o using p select * from r
with recursive r as (select 1 as n union all select n + 1 from r where n < 3) search depth first by n set o cycle n set c using o select * from r
with recursive r as (select 1 as n union all select n + 1 from (select * from r) as q where n < 3) search depth first by n set o select * from r
with recursive r as (select 1 as n union all select n + 1 from r where n < 3) cycle n set c to 1 default 'x' using p select * from r
with recursive r as (select 1 as n union all select n + 1 from r where n < 3) cycle n set c to 1 default '2' using p select * from r
create view gv as with recursive r (f, t) as (select f, t from graph g where f = 1 union all select g.f, g.t from graph g, r where g.f = r.t) search depth first by f, t set seq cycle f, t set is_cycle using path select f, t, is_cycle from r
select * from gv order by 1, 2, 3
alter table graph rename column f to source
alter table graph add column extra int
select * from gv order by 1, 2, 3
-- TABLESAMPLE: what does not depend on chance.
select count(*) from graph tablesample bernoulli (100)
select count(*) from graph tablesample system (0)
select count(*) from graph as g (a, b) tablesample bernoulli (100) repeatable (1) where g.a = 1
select (select count(*) from graph tablesample bernoulli (50) repeatable (3)) = (select count(*) from graph tablesample bernoulli (50) repeatable (3))
select g.t from graph g tablesample system (100) join graph h tablesample bernoulli (100.0) on g.t = h.source order by 1
select count(*) from graph tablesample bernoulli (200)
select count(*) from graph tablesample bernoulli (-1)
select count(*) from graph tablesample bernoulli (null)
select count(*) from graph tablesample bernoulli (10) repeatable (null)
select count(*) from graph tablesample nope (10)
select count(*) from graph tablesample bernoulli (10, 20)
select count(*) from graph tablesample bernoulli ('x')
create view sv as select * from graph tablesample bernoulli (100)
select count(*) from sv
drop view sv
drop view gv
drop table graph
