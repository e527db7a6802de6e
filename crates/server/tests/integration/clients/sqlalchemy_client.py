"""SQLAlchemy over psycopg against a server: ORM, types, reflection, savepoints, serialization failures, and alembic.

Usage: sqlalchemy_client.py URL    (postgresql+psycopg://USER@HOST:PORT/DATABASE)
"""

import datetime as dt
import decimal
import sys
import threading
import uuid

import sqlalchemy as sa
from sqlalchemy import exc, orm
from sqlalchemy.dialects import postgresql as pg

ENGINE = sa.create_engine(sys.argv[1], isolation_level="SERIALIZABLE")


class Base(orm.DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "s_author"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(50), unique=True)
    born: orm.Mapped[dt.date | None]
    books: orm.Mapped[list["Book"]] = orm.relationship(back_populates="author", cascade="all, delete-orphan")


class Book(Base):
    __tablename__ = "s_book"
    __table_args__ = (
        sa.CheckConstraint("price >= 0", name="s_price"),
        sa.Index("s_book_title", "title"),
        sa.UniqueConstraint("author_id", "title", name="s_book_once"),
    )
    id: orm.Mapped[int] = orm.mapped_column(sa.Identity(), primary_key=True)
    author_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("s_author.id", ondelete="CASCADE"))
    title: orm.Mapped[str]
    price: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(10, 2))
    data: orm.Mapped[dict] = orm.mapped_column(pg.JSONB, default=dict)
    tags: orm.Mapped[list[str]] = orm.mapped_column(pg.ARRAY(sa.Text), default=list)
    key: orm.Mapped[uuid.UUID] = orm.mapped_column(default=uuid.uuid4)
    added: orm.Mapped[dt.datetime] = orm.mapped_column(sa.DateTime(timezone=True), server_default=sa.func.now())
    author: orm.Mapped[Author] = orm.relationship(back_populates="books")


def schema():
    Base.metadata.drop_all(ENGINE)
    Base.metadata.create_all(ENGINE)
    Base.metadata.create_all(ENGINE)


def mapping():
    with orm.Session(ENGINE) as session:
        author = Author(name="Gray", born=dt.date(1944, 1, 12))
        author.books = [
            Book(title=f"Volume {i}", price=decimal.Decimal(i) + decimal.Decimal("0.25"), data={"n": i}, tags=["a", str(i)])
            for i in range(5)
        ]
        session.add(author)
        session.commit()
        book = session.scalars(sa.select(Book).where(Book.data["n"].as_integer() == 3)).one()
        assert (book.title, book.tags, book.author.name) == ("Volume 3", ["a", "3"], "Gray")
        assert book.added.tzinfo is not None
        total = session.scalar(sa.select(sa.func.sum(Book.price)).join(Author).where(Author.name.ilike("gr%")))
        assert total == decimal.Decimal("11.25"), total
        eager = session.scalars(sa.select(Author).options(orm.selectinload(Author.books))).unique().all()
        assert len(eager[0].books) == 5
        with session.begin_nested() as nested:
            session.add(Author(name="Lost"))
            session.flush()
            nested.rollback()
        session.add(Author(name="Gray"))
        try:
            session.commit()
            raise AssertionError("a duplicate was accepted")
        except exc.IntegrityError as error:
            assert error.orig.sqlstate == "23505"
            session.rollback()
        insert = pg.insert(Author).values(name="Gray").on_conflict_do_update(
            index_elements=["name"], set_={"born": dt.date(1944, 1, 13)}
        ).returning(Author.born)
        assert session.scalar(insert) == dt.date(1944, 1, 13)
        session.commit()
        session.delete(session.scalars(sa.select(Author)).one())
        session.commit()
        assert session.scalar(sa.select(sa.func.count()).select_from(Book)) == 0


def reflection():
    inspector = sa.inspect(ENGINE)
    assert {"s_author", "s_book"} <= set(inspector.get_table_names())
    columns = {column["name"]: column for column in inspector.get_columns("s_book")}
    assert isinstance(columns["price"]["type"], sa.Numeric) and columns["price"]["type"].scale == 2
    assert isinstance(columns["tags"]["type"], pg.ARRAY) and isinstance(columns["data"]["type"], pg.JSONB)
    assert columns["id"]["identity"]["always"] is False, columns["id"]
    assert "now()" in columns["added"]["default"]
    assert inspector.get_pk_constraint("s_book")["constrained_columns"] == ["id"]
    [key] = inspector.get_foreign_keys("s_book")
    assert (key["referred_table"], key["options"]) == ("s_author", {"ondelete": "CASCADE"}), key
    assert {index["name"] for index in inspector.get_indexes("s_book")} == {"s_book_title", "s_book_once"}
    assert [unique["name"] for unique in inspector.get_unique_constraints("s_book")] == ["s_book_once"]
    assert [check["name"] for check in inspector.get_check_constraints("s_book")] == ["s_price"]
    inspector.get_view_names(), inspector.get_sequence_names(), inspector.get_schema_names()
    inspector.get_table_comment("s_book"), inspector.get_enums(), inspector.has_table("nothing")
    reflected = sa.MetaData()
    reflected.reflect(ENGINE, only=["s_author", "s_book"])
    assert reflected.tables["s_book"].c.author_id.references(reflected.tables["s_author"].c.id)


def conflicts():
    with ENGINE.begin() as conn:
        conn.exec_driver_sql("DROP TABLE IF EXISTS s_counter")
        conn.exec_driver_sql("CREATE TABLE s_counter (id int PRIMARY KEY, v int)")
        conn.exec_driver_sql("INSERT INTO s_counter VALUES (1, 0)")
    counter = sa.Table("s_counter", sa.MetaData(), autoload_with=ENGINE)
    failures = []

    def work():
        done = 0
        while done < 25:
            try:
                with ENGINE.begin() as conn:
                    value = conn.scalar(sa.select(counter.c.v).where(counter.c.id == 1).with_for_update())
                    conn.execute(counter.update().where(counter.c.id == 1).values(v=value + 1))
                done += 1
            except exc.DBAPIError as error:
                assert error.orig.sqlstate in ("40001", "40P01"), error
                failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    with ENGINE.connect() as conn:
        assert conn.scalar(sa.select(counter.c.v)) == 100
    print(f"  {len(failures)} of 100 transactions were repeated")


def migrations():
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext
    from alembic.operations import Operations

    def upgrade(conn):
        operations = Operations(MigrationContext.configure(conn))
        operations.create_table("s_migrated", sa.Column("id", sa.Integer, primary_key=True), sa.Column("a", sa.String(5)))
        operations.bulk_insert(sa.table("s_migrated", sa.column("a", sa.String)), [{"a": "first"}])
        operations.add_column("s_migrated", sa.Column("b", sa.Integer, server_default="7", nullable=False))
        operations.alter_column("s_migrated", "a", type_=sa.Text(), new_column_name="c")
        operations.create_index("s_migrated_b", "s_migrated", ["b"])

    with ENGINE.begin() as conn:
        conn.exec_driver_sql("DROP TABLE IF EXISTS s_migrated")
    with ENGINE.connect() as conn:
        upgrade(conn)
        conn.rollback()
        assert not sa.inspect(conn).has_table("s_migrated")
    with ENGINE.begin() as conn:
        upgrade(conn)
    with ENGINE.connect() as conn:
        columns = [column["name"] for column in sa.inspect(conn).get_columns("s_migrated")]
        assert columns == ["id", "c", "b"], columns
        assert conn.exec_driver_sql("SELECT * FROM s_migrated").fetchall() == [(1, "first", 7)]
        context = MigrationContext.configure(conn, opts={"include_object": lambda o, name, *_: (name or "").startswith(("s_author", "s_book"))})
        assert compare_metadata(context, Base.metadata) == []


def main():
    for check in (schema, mapping, reflection, conflicts, migrations):
        check()
        print(f"SQLAlchemy {sa.__version__}: {check.__name__} ok", flush=True)


if __name__ == "__main__":
    main()
