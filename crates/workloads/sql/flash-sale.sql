-- The flash sale in PL/pgSQL. Top-K columns are the engine's own, so here the leaderboard is a query of the ledger.

-- Takes one piece of an item's stock, which a CHECK keeps from falling below zero, and enters the order in the ledger.
create or replace function order_item(p_item bigint, p_amount bigint, p_caller bigint, p_number bigint)
returns void language plpgsql as $$
begin
    update sale_item set stock = stock - 1, orders = orders + 1 where id = p_item;
    insert into sale_ledger (caller, number, item, amount) values (p_caller, p_number, p_item, p_amount);
end $$;

-- One look at the item's page more.
create or replace function view_item(p_item bigint) returns void language plpgsql as $$
begin
    update sale_item set views = views + 1 where id = p_item;
end $$;

-- The largest orders. It is in no mix: a report reads it.
create or replace function leaderboard(p_places bigint)
returns table (caller bigint, number bigint, item bigint, amount bigint) language sql stable as $$
    select * from sale_ledger order by amount desc, caller desc, number desc limit p_places
$$;
