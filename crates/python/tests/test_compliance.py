"""The DB-API compliance suite (`dbapi-compliance` on PyPI)."""

import unittest

# Names of Python 2 that the suite calls, and that Python 3.12 has removed.
for old, new in {"failUnless": "assertTrue", "assertEquals": "assertEqual"}.items():
    if not hasattr(unittest.TestCase, old):
        setattr(unittest.TestCase, old, getattr(unittest.TestCase, new))

import shutil
import tempfile

import dbapi20

import heddledb


class TestCompliance(dbapi20.DatabaseAPI20Test):
    driver = heddledb

    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.connect_args = (self.directory + "/db",)
        self.connect_kw_args = {}

    def tearDown(self):
        super().tearDown()
        shutil.rmtree(self.directory)

    def test_nextset(self):
        connection = self._connect()
        cursor = connection.cursor()
        self.executeDDL1(cursor)
        for statement in self._populate():
            cursor.execute(statement)
        cursor.execute(f"select count(*) from {self.table_prefix}booze; select name from {self.table_prefix}booze")
        self.assertEqual(cursor.fetchone()[0], len(self.samples))
        self.assertTrue(cursor.nextset())
        self.assertEqual(len(cursor.fetchall()), len(self.samples))
        self.assertIsNone(cursor.nextset())
        connection.close()

    def test_non_idempotent_close(self):
        # "Reasonable persons differ", says the suite: closing twice does nothing, as with sqlite3.
        connection = self._connect()
        connection.close()
        connection.close()

    def test_setoutputsize(self):
        connection = self._connect()
        cursor = connection.cursor()
        cursor.setoutputsize(1)
        cursor.execute("select 'longer than that'")
        self.assertEqual(cursor.fetchone(), ("longer than that",))
        connection.close()
