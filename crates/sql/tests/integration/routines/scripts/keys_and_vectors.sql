# 0 and -0 are one key, and two values.
create table f (x float8 primary key, n int, y float4)
insert into f values (0, 1, 0)
update f set x = '-0', y = '-0'
select x, y, n from f
insert into f values ('-0', 2)
update f set x = 0 where x = 0
select x from f
insert into f values ('-0', 3) on conflict (x) do update set x = excluded.x, n = excluded.n
select x, n from f
create table g (a int, x float4, n int, primary key (a, x))
insert into g values (1, '-0', 1), (1, 1, 2)
update g set x = x + 0, n = n + 1
select * from g order by x
# The vectors of the catalog are elements of arrays.
select array['1 2'::int2vector], pg_typeof(array['1 2'::int2vector])
select array['1 2'::int2vector, '3 4'::int2vector], array['1 2']::int2vector[], array['1'::oidvector]::oidvector[]
select '{"1 2","3"}'::int2vector[], ('{"1 2","3"}'::int2vector[])[1], pg_typeof(('{"1 2","3"}'::int2vector[])[1])
select array(select '1 2'::int2vector), pg_typeof(array(select '1 2'::int2vector))
select array_append('{"1 2"}'::int2vector[], '3'::int2vector)
select unnest('{"1 2","3"}'::int2vector[])
select unnest('1 2'::int2vector), array[array[1]], array[array['1 2'::int2vector::int2[]]]
select array_to_json(array['1 2'::int2vector]), to_json('1 2'::int2vector)
select '1 2'::int2vector = any(array['1 2'::int2vector]), '1 2'::oidvector = any('{"1 2"}'::oidvector[])
# Rows in lists.
select 1 where 1::int8 in (row(1))
select 1 where 1::int8 in (row(1, 2))
select 1 where 1::int8 in (row(1), row(2))
select 1 where 1::int8 in (1, row(2))
select 1 where row(1) in (1, 2)
select 1 where row(1::int8) in (row(1), row(2))
select 1 where row(1) in (row(1), 2)
select 1 where 1 = row(1)
select 1 where row(1) = 1
select 1 where 1 < row(1)
select 1 where 1 = any (array[row(1)])
select 1 where 1 in (select row(1))
select 1 where row(1) in (select row(1))
select 1 where row(1) in (select 1)
select 1 where 1 is distinct from row(1)
select 1 where 1 between row(1) and row(2)
select nullif(1, row(1))
select case 1 when row(1) then 1 end
select coalesce(1, row(1))
select greatest(1, row(1))
select 1 where 1 not in (row(1))
select 1 where (1, 2) in ((1, 2), 3)
select 1 where 1 in ((1, 2), 3)
select 1 where 'x' in (row('1'))
select 1 where null in (row('1'))
# Zones right behind dates.
set timezone = 'UTC'
select '2024-01-01Z'::timestamptz, '2024-01-01z'::timestamptz, '2024-01-01 Z'::timestamptz, '2024-01-01+02'::timestamptz, '2024-01-01 +02'::timestamptz
select '2024-01-01-02'::timestamptz
select '2024-01-01T'::timestamptz
select '2024-01-01PST'::timestamptz, '2024-01-01UTC'::timestamptz, '2024/01/01Z'::timestamptz, '20240101Z'::timestamptz
select '2024-01-01Z'::date, '2024-01-01Z'::timestamp, '2024-Jan-01Z'::timestamptz, '01-Jan-2024Z'::timestamptz, '2024.001Z'::timestamptz
select '2024-01-01BC'::timestamptz, '2024-01-01AD'::timestamptz, '2024-01-01T12:00Z'::timestamptz, '2024-01-01 12:00PM'::timestamptz
select '2024-01-01T12Z'::timestamptz
select '2024-01-01 12Z'::timestamptz
select '2024-01-01T1200Z'::timestamptz, '2024-01-01 1200Z'::timestamptz, '2024-01-01 120000Z'::timestamptz
select '2024-01-01 12:00:00America/New_York'::timestamptz, '2024-01-01America/New_York'::timestamptz, '2024-01-01 America/New_York'::timestamptz
select '2024-1Z'::timestamptz
select '1-1-2024Z'::timestamptz, '1/1/2024Z'::timestamptz, 'Jan 1 2024Z'::timestamptz, 'J2451187Z'::timestamptz, 'J2451187 Z'::timestamptz
select '12:00Z'::timetz, '1200Z'::timetz
select '2024-01-01Z 12:00'::timestamptz, '2024-01-01Z12:00'::timestamptz, '2024-01-01PST 12:00'::timestamptz, '2024-01-01allballs'::timestamptz
select '2024-01-01-02:30'::timestamptz
select '2024-01-01 -02:30'::timestamptz, '2024-01-01Monday'::timestamptz, '2024-01-01zulu'::timestamptz
select '2024-01-01GMT+2'::timestamptz, '2024-01-01 PST+2'::timestamptz, '2024-01-01 12:00PST+2'::timestamptz, '2024.01.01Z'::timestamptz
# A transaction has one number.
select txid_current() > 0, txid_current() = txid_current()
begin
select txid_current_if_assigned() is null
select txid_current() = txid_current_if_assigned()
savepoint a
select txid_current() = txid_current_if_assigned()
commit
select txid_current_if_assigned() is null
