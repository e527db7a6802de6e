"""SQLAlchemy: the ORM, PostgreSQL's constructs and types, reflection."""

import datetime
import decimal
import uuid

import pytest
from sqlalchemy import ForeignKey, String, create_engine, func, inspect, select, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship


class Base(DeclarativeBase):
    pass


class User(Base):
    __tablename__ = "user_account"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(30), unique=True)
    settings: Mapped[dict] = mapped_column(postgresql.JSONB, default=dict)
    token: Mapped[uuid.UUID] = mapped_column(default=uuid.uuid4)
    balance: Mapped[decimal.Decimal] = mapped_column(default=0)
    tags: Mapped[list] = mapped_column(postgresql.ARRAY(String), default=list)
    created: Mapped[datetime.datetime] = mapped_column(
        postgresql.TIMESTAMP(timezone=True), server_default=func.now()
    )
    addresses: Mapped[list["Address"]] = relationship(back_populates="user", cascade="all, delete-orphan")


class Address(Base):
    __tablename__ = "address"
    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str]
    user_id: Mapped[int] = mapped_column(ForeignKey("user_account.id"))
    user: Mapped["User"] = relationship(back_populates="addresses")


@pytest.fixture(params=["memory", "file"])
def engine(request, path):
    made = create_engine("heddledb://" if request.param == "memory" else f"heddledb:///{path}")
    Base.metadata.create_all(made)
    yield made
    made.dispose()


def test_the_orm(engine):
    with Session(engine) as session:
        user = User(name="sandy", settings={"a": [1, None]}, tags=["x", "y"], balance=decimal.Decimal("1.50"))
        user.addresses = [Address(email="sandy@example.com"), Address(email="s@example.com")]
        session.add_all([user, User(name="patrick")])
        session.commit()
    with Session(engine) as session:
        sandy = session.scalars(select(User).where(User.name == "sandy")).one()
        assert sandy.settings == {"a": [1, None]} and sandy.tags == ["x", "y"]
        assert sandy.balance == decimal.Decimal("1.50") and isinstance(sandy.token, uuid.UUID)
        assert sandy.created.tzinfo is not None
        assert [address.email for address in sandy.addresses] == ["sandy@example.com", "s@example.com"]
        found = session.scalars(select(User.name).where(User.settings["a"][0].as_integer() == 1)).all()
        assert found == ["sandy"]
        session.delete(sandy)
        session.commit()
        assert session.scalar(select(func.count()).select_from(Address)) == 0
        session.add(User(name="patrick"))
        with pytest.raises(IntegrityError):
            session.commit()


def test_postgresql_constructs(engine):
    insert = postgresql.insert(User).values(name="a", balance=1)
    upsert = insert.on_conflict_do_update(index_elements=["name"], set_={"balance": User.balance + 1})
    with engine.begin() as connection:
        for _ in range(3):
            (balance,) = connection.execute(upsert.returning(User.balance)).one()
        assert balance == 3
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("update user_account set balance = 7 where name = :name"), {"name": "a"})
        connection.rollback()
        assert connection.scalar(select(User.balance)) == 7


def test_reflection(engine):
    found = inspect(engine)
    assert set(found.get_table_names()) == {"user_account", "address"}
    columns = {column["name"]: column["type"] for column in found.get_columns("user_account")}
    assert isinstance(columns["settings"], postgresql.JSONB)
    assert found.get_pk_constraint("address")["constrained_columns"] == ["id"]
    assert found.get_foreign_keys("address")[0]["referred_table"] == "user_account"
    assert found.get_unique_constraints("user_account")[0]["column_names"] == ["name"]
