"""Django's ORM and its test runner against a server: migrations, queries, constraints, locks.

Usage: django_client.py HOST PORT USER DATABASE [PASSWORD]
"""

import datetime as dt
import decimal
import sys
import threading

import django
from django.conf import settings

HOST, PORT, USER, DATABASE = sys.argv[1:5]
settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": HOST, "PORT": PORT, "USER": USER, "NAME": DATABASE,
            "PASSWORD": sys.argv[5] if len(sys.argv) > 5 else "",
        }
    },
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions"],
    USE_TZ=True,
    TIME_ZONE="UTC",
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    SECRET_KEY="test",
)
django.setup()

from django.contrib.auth.models import Group, Permission, User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import IntegrityError, OperationalError, connection, models, transaction  # noqa: E402
from django.db.models import Avg, Count, F, Q, Sum, Window  # noqa: E402
from django.db.models.functions import Rank, TruncMonth  # noqa: E402


class Item(models.Model):
    name = models.CharField(max_length=50, unique=True)
    price = models.DecimalField(max_digits=10, decimal_places=2, default=0)
    stock = models.IntegerField(default=0)
    data = models.JSONField(default=dict)
    added = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label = "shop"
        db_table = "d_item"
        constraints = [models.CheckConstraint(condition=Q(stock__gte=0), name="d_stock")]
        indexes = [models.Index(fields=["price", "-stock"], name="d_price")]


def migrate():
    call_command("migrate", verbosity=0)
    call_command("migrate", verbosity=0)
    assert Permission.objects.count() > 0
    with connection.schema_editor() as editor:
        if "d_item" in connection.introspection.table_names():
            editor.delete_model(Item)
        editor.create_model(Item)


def schema():
    field = models.IntegerField(default=3)
    field.set_attributes_from_name("extra")
    field.model = Item
    try:
        with connection.schema_editor() as editor:
            editor.add_field(Item, field)
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    with connection.cursor() as cursor:
        columns = [column.name for column in connection.introspection.get_table_description(cursor, "d_item")]
        assert "extra" not in columns, columns
    with connection.schema_editor() as editor:
        editor.add_field(Item, field)
    old = Item._meta.get_field("name")
    new = models.CharField(max_length=80, unique=True)
    new.set_attributes_from_name("name")
    new.model = Item
    with connection.schema_editor() as editor:
        editor.alter_field(Item, old, new)
        editor.remove_field(Item, field)


def introspection():
    with connection.cursor() as cursor:
        columns = [column.name for column in connection.introspection.get_table_description(cursor, "d_item")]
        assert columns == ["id", "name", "price", "stock", "data", "added"], columns
        constraints = connection.introspection.get_constraints(cursor, "d_item")
        assert constraints["d_stock"]["check"] and constraints["d_price"]["columns"] == ["price", "stock"]
        assert constraints["d_price"]["orders"] == ["ASC", "DESC"], constraints["d_price"]
        assert connection.introspection.get_primary_key_columns(cursor, "d_item") == ["id"]
        sequences = connection.introspection.get_sequences(cursor, "d_item")
        assert sequences[0]["column"] == "id", sequences
    call_command("inspectdb", "d_item", stdout=open("/dev/null", "w"))


def queries():
    Item.objects.all().delete()
    Item.objects.bulk_create(
        Item(name=f"item {i}", price=decimal.Decimal(i) / 4, stock=i, data={"n": i, "tags": ["a", str(i)]}) for i in range(50)
    )
    item, created = Item.objects.get_or_create(name="item 7", defaults={"stock": 1})
    assert (created, item.stock, item.price) == (False, 7, decimal.Decimal("1.75"))
    item, created = Item.objects.update_or_create(name="new", defaults={"stock": 9})
    assert created and item.pk
    assert Item.objects.filter(data__n__gt=45).count() == 4
    assert Item.objects.filter(data__tags__contains=["7"]).get().name == "item 7"
    assert Item.objects.filter(name__icontains="ITEM 1").count() == 11
    assert Item.objects.filter(name__iregex=r"^item [12]$").count() == 2
    assert Item.objects.aggregate(Sum("stock"), Avg("price"))["stock__sum"] == 1225 + 9
    ranked = Item.objects.annotate(rank=Window(Rank(), order_by=F("stock").desc())).order_by("rank")[:3]
    assert [row.stock for row in ranked] == [49, 48, 47]
    months = Item.objects.annotate(month=TruncMonth("added")).values("month").annotate(n=Count("id"))
    assert sum(row["n"] for row in months) == 51
    Item.objects.filter(stock__gt=40).update(price=F("price") + 1)
    assert sum(1 for _ in Item.objects.order_by("id").iterator(chunk_size=7)) == 51
    user, _ = User.objects.get_or_create(username="ada")
    group, _ = Group.objects.get_or_create(name="engineers")
    user.groups.add(group)
    assert User.objects.filter(groups__name="engineers").prefetch_related("groups").get() == user
    with transaction.atomic():
        try:
            with transaction.atomic():
                Item.objects.create(name="new")
            raise AssertionError("a duplicate was accepted")
        except IntegrityError:
            pass
        try:
            with transaction.atomic():
                Item.objects.create(name="negative", stock=-1)
            raise AssertionError("a check was ignored")
        except IntegrityError:
            pass
        assert Item.objects.filter(name="new").exists()
    Item.objects.bulk_create([Item(name="new", stock=1)], ignore_conflicts=True)
    Item.objects.bulk_create([Item(name="new", stock=77)], update_conflicts=True, unique_fields=["name"], update_fields=["stock"])
    assert Item.objects.get(name="new").stock == 77
    assert Item.objects.dates("added", "year")[0].year == dt.datetime.now(dt.timezone.utc).year
    union = Item.objects.filter(stock=1).union(Item.objects.filter(stock=2))
    assert union.count() == 2


def locks():
    Item.objects.update_or_create(name="hot", defaults={"stock": 0})
    failures = []

    def work(how):
        for _ in range(25):
            while True:
                try:
                    with transaction.atomic():
                        how()
                    break
                except OperationalError as error:
                    assert error.__cause__.sqlstate in ("40001", "40P01"), error
                    failures.append(error)
        connection.close()

    def read_then_save():
        item = Item.objects.select_for_update().get(name="hot")
        item.stock += 1
        item.save()

    def expression():
        Item.objects.filter(name="hot").update(stock=F("stock") + 1)

    threads = [threading.Thread(target=work, args=(how,)) for how in (read_then_save, expression) * 2]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert Item.objects.get(name="hot").stock == 100
    print(f"  {len(failures)} of 100 transactions were repeated")


def saves():
    """Rows that are read and saved without a lock: after the first conflicts the server reserves them for their readers."""
    keys = [Item.objects.create(name=f"saved {i}").pk for i in range(3)]
    failures = []

    def work():
        for i in range(25):
            while True:
                try:
                    with transaction.atomic():
                        item = Item.objects.get(pk=keys[i % len(keys)])
                        item.stock += 1
                        item.save()
                    break
                except OperationalError as error:
                    assert error.__cause__.sqlstate == "40001", error
                    failures.append(error)
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sum(Item.objects.get(pk=key).stock for key in keys) == 200
    print(f"  {len(failures)} of 200 transactions were repeated")
    # Each row's first conflict may be of all threads.
    assert len(failures) <= 40, len(failures)


def main():
    for check in (migrate, introspection, queries, locks, saves, schema):
        check()
        print(f"Django {django.__version__}: {check.__name__} ok", flush=True)


if __name__ == "__main__":
    main()
