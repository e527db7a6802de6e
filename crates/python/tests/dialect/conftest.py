"""What SQLAlchemy's suite asks for."""

import pytest

pytest.register_assert_rewrite("sqlalchemy.testing.assertions")

import sqlalchemy.dialects.postgresql.provision  # noqa: E402, F401
from sqlalchemy.testing import provision  # noqa: E402
from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: E402, F401, F403

# It installs extensions, of which citext is not here.
provision.post_configure_engine.fns["postgresql"] = lambda *_: None
