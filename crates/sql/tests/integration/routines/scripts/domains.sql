create table said (n serial primary key, what text)
create domain pos as int check (value > 0)
create domain nn as int not null
create domain short as varchar(3)
create domain posa as int[] check (array_length(value,1) < 3)
create domain pp as pos check (value < 100)
create domain dd as int default 7
create table t(a pos, b int[], c nn)
do $$ declare x pos := -1; begin insert into said(what) values (format('%s', x)); end $$
select what from said order by n
do $$ declare x pos; begin x := -1; insert into said(what) values (format('%s', x)); end $$
select what from said order by n
do $$ declare x pos := 5; begin x := x - 5; insert into said(what) values (format('%s', x)); exception when check_violation then insert into said(what) values (format('caught %s', x)); end $$
select what from said order by n
do $$ declare x nn; begin insert into said(what) values (format('%s', x)); end $$
select what from said order by n
do $$ declare x nn := 1; begin x := null; insert into said(what) values (format('%s', x)); end $$
select what from said order by n
do $$ declare x dd; begin insert into said(what) values (format('%s', x)); end $$
select what from said order by n
do $$ declare x short := 'abcd'; begin insert into said(what) values (format('%s', x)); end $$
select what from said order by n
do $$ declare x short := 'abc'; begin x := 'abcd'; insert into said(what) values (format('%s', x)); end $$
select what from said order by n
do $$ declare x short := 'abc '; begin insert into said(what) values (format('[%s]', x)); end $$
select what from said order by n
select what from said order by n
select what from said order by n
do $$ declare x posa := array[1,2]; begin x[3] := 5; insert into said(what) values (format('%s', x)); end $$
select what from said order by n
do $$ declare x pp; begin x := 5; x := -5; end $$
do $$ declare x pp; begin x := 500; end $$
do $$ declare x constant pos := -3; begin null; end $$
do $$ declare x pos; begin select -1 into x; end $$
do $$ declare x pos; y int; begin select 1, -1 into y, x; end $$
do $$ declare x pos; begin for x in select -1 loop insert into said(what) values (format('%s', x)); end loop; end $$
select what from said order by n
do $$ declare x pos; begin foreach x in array array[1,-1] loop insert into said(what) values (format('%s', x)); end loop; end $$
select what from said order by n
do $$ declare x pos; begin get diagnostics x = row_count; end $$
do $$ declare x pos; begin execute 'select -1' into x; end $$
do $$ declare x t.a%type; begin x := -1; end $$
do $$ declare r t; begin r.a := -1; insert into said(what) values (format('%s', r)); end $$
select what from said order by n
do $$ declare r t%rowtype; begin r := row(-1, null, 1); insert into said(what) values (format('%s', r)); end $$
select what from said order by n
do $$ declare r t; begin select -1, null, 1 into r; insert into said(what) values (format('%s', r)); end $$
select what from said order by n
do $$ declare r t; begin r.c := null; insert into said(what) values (format('%s', r)); end $$
select what from said order by n
do $$ declare r t; begin r.b := array[-1]; insert into said(what) values (format('%s', r)); end $$
select what from said order by n
create function fa(x pos) returns int language plpgsql as 'begin return x; end'
select fa(1)
select fa(-1)
select fa(null)
create function fan(x nn) returns int language plpgsql as 'begin return x; end'
select fan(null)
select fan(2)
create function fr(x int) returns pos language plpgsql as 'begin return x; end'
select fr(1)
select fr(-1)
create function frs(x int) returns pos language sql as 'select x'
select frs(1)
select frs(-1)
create function fas(x pos) returns int language sql as 'select x'
select fas(1)
select fas(-1)
create function frn() returns nn language plpgsql as 'begin return null; end'
select frn()
create function frn2() returns nn language sql as 'select null::int'
select frn2()
create function frn3() returns nn language plpgsql as 'begin end'
select frn3()
create function fset(x int) returns setof pos language plpgsql as 'begin return next 1; return next x; end'
select * from fset(2)
select * from fset(-2)
create function fset4(x int) returns setof pos language plpgsql as 'begin return query select x::pos; end'
select * from fset4(2)
select * from fset4(-2)
create function fo(x int, out y pos, out z pos) language plpgsql as 'begin y := 1; z := x; end'
select * from fo(1)
select * from fo(-1)
create function ft(x int) returns table(y pos, z int) language plpgsql as 'begin y := x; z := 1; return next; end'
select * from ft(1)
select * from ft(-1)
create function fdef(x pos default -1) returns int language plpgsql as 'begin return x; end'
select fdef()
create procedure pin(x pos, inout y pos) language plpgsql as 'begin y := y - x; end'
call pin(1, 5)
call pin(-1, 5)
call pin(5, 5)
do $$ declare y pos := 5; begin call pin(5, y); end $$
select (-1)::pos
select null::nn
select 'abcd'::short
insert into t values (-1,null,1)
insert into t values (1,null,null)
update t set a = a - 1
update t set c = null
select coalesce(null, -1)::pos
select case when true then -1 end::pos
select 1.6::pos
select '2'::pos + 1
select pg_typeof(1::pos), pg_typeof(1::pos+1)
create function trg() returns trigger language plpgsql as 'begin new.a := -1; return new; end'
create trigger tr before insert on t for each row execute function trg()
insert into t values (1,null,1)
