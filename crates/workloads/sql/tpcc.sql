-- TPC-C, revision 5.11, in PL/pgSQL: the five transactions, each one function.
-- Payment and order status get a customer's number, or its last name and NULL as the number.

-- Of all customers of a district who share a last name, in the order of their first names, the one in the middle.
create or replace function customer_by_name(p_w_id bigint, p_d_id bigint, p_c_last text)
returns bigint language plpgsql as $$
declare
    v_namesakes bigint[];
begin
    v_namesakes := array(
        select c_id from customer where c_w_id = p_w_id and c_d_id = p_d_id and c_last = p_c_last order by c_first);
    return v_namesakes[(cardinality(v_namesakes) + 1) / 2];
end $$;

-- New order (clause 2.4): an order of 5 to 15 lines, each of which takes its item from a warehouse's stock. An order that
-- names an item that there is not fails. The order's total amount.
create or replace function new_order(
    p_w_id bigint, p_d_id bigint, p_c_id bigint,
    p_items bigint[], p_suppliers bigint[], p_quantities bigint[], p_entry_d timestamptz
) returns numeric language plpgsql as $$
declare
    v_o_id bigint;
    v_lines integer := cardinality(p_items);
    v_w_tax numeric;
    v_d_tax numeric;
    v_discount numeric;
    v_last text;
    v_credit text;
    v_price numeric;
    v_name text;
    v_data text;
    v_dist_info text;
    v_amount numeric;
    v_total numeric := 0;
begin
    update district set d_next_o_id = d_next_o_id + 1 where d_w_id = p_w_id and d_id = p_d_id
    returning d_next_o_id - 1, d_tax into strict v_o_id, v_d_tax;
    select w_tax into strict v_w_tax from warehouse where w_id = p_w_id;
    select c_discount, c_last, c_credit into strict v_discount, v_last, v_credit
      from customer where c_w_id = p_w_id and c_d_id = p_d_id and c_id = p_c_id;
    insert into orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)
    values (p_w_id, p_d_id, v_o_id, p_c_id, p_entry_d, null, v_lines,
            case when p_w_id = all (p_suppliers) then 1 else 0 end);
    insert into new_order (no_w_id, no_d_id, no_o_id) values (p_w_id, p_d_id, v_o_id);
    for v_line in 1 .. v_lines loop
        select i_price, i_name, i_data into v_price, v_name, v_data from item where i_id = p_items[v_line];
        if not found then
            raise exception 'item number is not valid';
        end if;
        update stock set
            s_quantity = s_quantity - p_quantities[v_line]
                + case when s_quantity >= p_quantities[v_line] + 10 then 0 else 91 end,
            s_ytd = s_ytd + p_quantities[v_line],
            s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + case when p_suppliers[v_line] = p_w_id then 0 else 1 end
         where s_w_id = p_suppliers[v_line] and s_i_id = p_items[v_line]
        returning case p_d_id
            when 1 then s_dist_01 when 2 then s_dist_02 when 3 then s_dist_03 when 4 then s_dist_04
            when 5 then s_dist_05 when 6 then s_dist_06 when 7 then s_dist_07 when 8 then s_dist_08
            when 9 then s_dist_09 else s_dist_10 end
        into strict v_dist_info;
        v_amount := p_quantities[v_line] * v_price;
        v_total := v_total + v_amount;
        insert into order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d,
                                ol_quantity, ol_amount, ol_dist_info)
        values (p_w_id, p_d_id, v_o_id, v_line, p_items[v_line], p_suppliers[v_line], null,
                p_quantities[v_line], v_amount, v_dist_info);
    end loop;
    return v_total * (1 - v_discount) * (1 + v_w_tax + v_d_tax);
end $$;

-- Payment (clause 2.5): a customer pays an amount, which warehouse, district and customer keep account of. A customer with
-- bad credit gets the payment written into its data. The customer's number.
create or replace function payment(
    p_w_id bigint, p_d_id bigint, p_c_w_id bigint, p_c_d_id bigint, p_c_id bigint, p_c_last text,
    p_amount numeric, p_date timestamptz, p_caller bigint, p_sequence bigint
) returns bigint language plpgsql as $$
declare
    v_c_id bigint := p_c_id;
    v_w_name text;
    v_d_name text;
    v_credit text;
    v_namesakes bigint[];
begin
    if p_c_id is null then
        v_namesakes := array(select c_id from customer
            where c_w_id = p_c_w_id and c_d_id = p_c_d_id and c_last = p_c_last order by c_first);
        v_c_id := v_namesakes[(cardinality(v_namesakes) + 1) / 2];
    end if;
    update warehouse set w_ytd = w_ytd + p_amount where w_id = p_w_id
    returning w_name into strict v_w_name;
    update district set d_ytd = d_ytd + p_amount where d_w_id = p_w_id and d_id = p_d_id
    returning d_name into strict v_d_name;
    update customer set c_balance = c_balance - p_amount, c_ytd_payment = c_ytd_payment + p_amount,
        c_payment_cnt = c_payment_cnt + 1
     where c_w_id = p_c_w_id and c_d_id = p_c_d_id and c_id = v_c_id
    returning c_credit into strict v_credit;
    if v_credit = 'BC' then
        update customer set c_data = left(
            concat_ws(' ', v_c_id, p_c_d_id, p_c_w_id, p_d_id, p_w_id, p_amount) || '|' || c_data, 500)
         where c_w_id = p_c_w_id and c_d_id = p_c_d_id and c_id = v_c_id;
    end if;
    insert into history (h_w_id, h_caller, h_sequence, h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_date, h_amount, h_data)
    values (p_w_id, p_caller, p_sequence, v_c_id, p_c_d_id, p_c_w_id, p_d_id, p_date, p_amount,
            v_w_name || '    ' || v_d_name);
    return v_c_id;
end $$;

-- Order status (clause 2.6): the lines of a customer's last order, none if there is no order.
create or replace function order_status(p_w_id bigint, p_d_id bigint, p_c_id bigint, p_c_last text)
returns table (item bigint, supplier bigint, quantity integer, amount numeric, delivered timestamptz)
language plpgsql as $$
declare
    v_c_id bigint := coalesce(p_c_id, customer_by_name(p_w_id, p_d_id, p_c_last));
    v_customer record;
    v_order record;
begin
    select c_first, c_middle, c_last, c_balance into strict v_customer
      from customer where c_w_id = p_w_id and c_d_id = p_d_id and c_id = v_c_id;
    select o_id, o_entry_d, o_carrier_id into v_order
      from orders where o_w_id = p_w_id and o_d_id = p_d_id and o_c_id = v_c_id
     order by o_id desc limit 1;
    if found then
        return query select ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d
          from order_line where ol_w_id = p_w_id and ol_d_id = p_d_id and ol_o_id = v_order.o_id;
    end if;
end $$;

-- Delivery (clause 2.7): the oldest order of each of the ten districts that has not been delivered, in one transaction. A
-- district without one is left out. How many orders were delivered.
create or replace function delivery(p_w_id bigint, p_carrier_id bigint, p_delivery_d timestamptz)
returns integer language plpgsql as $$
declare
    v_o_id bigint;
    v_c_id bigint;
    v_amount numeric;
    v_delivered integer := 0;
begin
    for v_d_id in 1 .. 10 loop
        select no_o_id into v_o_id from new_order where no_w_id = p_w_id and no_d_id = v_d_id
         order by no_o_id limit 1;
        continue when not found;
        delete from new_order where no_w_id = p_w_id and no_d_id = v_d_id and no_o_id = v_o_id;
        update orders set o_carrier_id = p_carrier_id where o_w_id = p_w_id and o_d_id = v_d_id and o_id = v_o_id
        returning o_c_id into strict v_c_id;
        update order_line set ol_delivery_d = p_delivery_d
         where ol_w_id = p_w_id and ol_d_id = v_d_id and ol_o_id = v_o_id;
        select sum(ol_amount) into strict v_amount from order_line
         where ol_w_id = p_w_id and ol_d_id = v_d_id and ol_o_id = v_o_id;
        update customer set c_balance = c_balance + v_amount, c_delivery_cnt = c_delivery_cnt + 1
         where c_w_id = p_w_id and c_d_id = v_d_id and c_id = v_c_id;
        v_delivered := v_delivered + 1;
    end loop;
    return v_delivered;
end $$;

-- Stock level (clause 2.8): how many of the items in a district's last twenty orders are running out.
create or replace function stock_level(p_w_id bigint, p_d_id bigint, p_threshold bigint)
returns bigint language plpgsql as $$
declare
    v_next_o_id bigint;
    v_running_out bigint;
begin
    select d_next_o_id into strict v_next_o_id from district where d_w_id = p_w_id and d_id = p_d_id;
    select count(distinct ol_i_id) into strict v_running_out
      from order_line join stock on s_w_id = p_w_id and s_i_id = ol_i_id
     where ol_w_id = p_w_id and ol_d_id = p_d_id
       and ol_o_id >= v_next_o_id - 20 and ol_o_id < v_next_o_id
       and s_quantity < p_threshold;
    return v_running_out;
end $$;
