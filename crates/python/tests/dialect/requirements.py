"""What the suite expects of a dialect: what it expects of all."""

from sqlalchemy.testing.requirements import SuiteRequirements


class Requirements(SuiteRequirements):
    pass
