-- SmallBank in PL/pgSQL: customers have a savings and a checking account each. Every key is a parameter.
-- An account's row counts what was moved in and out, and how often it changed, so that the books can be checked.

-- Moves all that a customer has into another one's checking account.
create or replace function amalgamate(p_custid bigint, p_other bigint) returns void language plpgsql as $$
declare
    v_savings bigint;
    v_checking bigint;
begin
    perform 1 from account_owner where custid = p_custid;
    if not found then
        raise exception 'no such customer';
    end if;
    select balance into strict v_savings from savings where custid = p_custid;
    select balance into strict v_checking from checking where custid = p_custid;
    update savings set balance = 0, moved_in = moved_in + greatest(-v_savings, 0),
        moved_out = moved_out + greatest(v_savings, 0), changes = changes + 1
     where custid = p_custid;
    update checking set balance = 0, moved_in = moved_in + greatest(-v_checking, 0),
        moved_out = moved_out + greatest(v_checking, 0), changes = changes + 1
     where custid = p_custid;
    update checking set balance = balance + v_savings + v_checking,
        moved_in = moved_in + greatest(v_savings + v_checking, 0),
        moved_out = moved_out + greatest(-v_savings - v_checking, 0), changes = changes + 1
     where custid = p_other;
end $$;

-- What a customer has in both accounts.
create or replace function balance(p_custid bigint) returns bigint language plpgsql as $$
declare
    v_savings bigint;
    v_checking bigint;
begin
    perform 1 from account_owner where custid = p_custid;
    if not found then
        raise exception 'no such customer';
    end if;
    select balance into strict v_savings from savings where custid = p_custid;
    select balance into strict v_checking from checking where custid = p_custid;
    return v_savings + v_checking;
end $$;

-- Pays into a checking account.
create or replace function deposit_checking(p_custid bigint, p_amount bigint) returns void language plpgsql as $$
begin
    perform 1 from account_owner where custid = p_custid;
    if not found then
        raise exception 'no such customer';
    end if;
    update checking set balance = balance + p_amount, moved_in = moved_in + p_amount, changes = changes + 1
     where custid = p_custid;
end $$;

-- Pays into or out of a savings account, if the balance covers it.
create or replace function transact_savings(p_custid bigint, p_amount bigint) returns void language plpgsql as $$
declare
    v_balance bigint;
begin
    perform 1 from account_owner where custid = p_custid;
    if not found then
        raise exception 'no such customer';
    end if;
    select balance into strict v_balance from savings where custid = p_custid;
    if v_balance + p_amount < 0 then
        raise exception 'the amount is not covered';
    end if;
    update savings set balance = balance + p_amount, moved_in = moved_in + greatest(p_amount, 0),
        moved_out = moved_out + greatest(-p_amount, 0), changes = changes + 1
     where custid = p_custid;
end $$;

-- Takes a check's amount out of a checking account, and a penalty if both accounts together do not cover it.
create or replace function write_check(p_custid bigint, p_amount bigint) returns void language plpgsql as $$
declare
    v_savings bigint;
    v_checking bigint;
    v_amount bigint := p_amount;
begin
    perform 1 from account_owner where custid = p_custid;
    if not found then
        raise exception 'no such customer';
    end if;
    select balance into strict v_savings from savings where custid = p_custid;
    select balance into strict v_checking from checking where custid = p_custid;
    if v_savings + v_checking < p_amount then
        v_amount := p_amount + 100;
    end if;
    update checking set balance = balance - v_amount, moved_out = moved_out + v_amount, changes = changes + 1
     where custid = p_custid;
end $$;
