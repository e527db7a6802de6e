"""What Django's runner does: tests in transactions that are rolled back, tests that commit and flush, tests in parallel
threads."""

import threading

from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.test import TestCase, TransactionTestCase

from .models import Item, Line


class RolledBack(TestCase):
    @classmethod
    def setUpTestData(cls):
        cls.item = Item.objects.create(name="a")

    def test_one(self):
        Line.objects.create(item=self.item, count=1)
        self.assertEqual(Line.objects.count(), 1)

    def test_another_sees_nothing_of_it(self):
        self.assertEqual(Line.objects.count(), 0)
        with self.assertRaises(IntegrityError), transaction.atomic():
            Item.objects.create(name="a")
        with self.assertNumQueries(1):
            self.assertEqual([item.name for item in Item.objects.all()], ["a"])

    def test_login(self):
        User.objects.create_user("ada", password="x")
        self.assertTrue(self.client.login(username="ada", password="x"))

    def test_on_commit(self):
        with self.captureOnCommitCallbacks(execute=True) as callbacks:
            transaction.on_commit(lambda: None)
        self.assertEqual(len(callbacks), 1)

    def test_constraints_at_the_end(self):
        with self.assertRaises(IntegrityError), transaction.atomic():
            Line.objects.create(item_id=77, count=1)
            connection.check_constraints()


class Committed(TransactionTestCase):
    reset_sequences = True

    def test_others_see_it(self):
        self.assertEqual(Item.objects.create(name="b").pk, 1)
        seen = []

        def look():
            seen.append(Item.objects.count())
            connection.close()

        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        self.assertEqual(seen, [1])

    def test_the_next_begins_empty(self):
        self.assertEqual(Item.objects.count(), 0)
