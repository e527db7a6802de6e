"""A project whose tests run in the database that the server serves: `python -m django test --keepdb`.

`HEDDLE_PORT` and `HEDDLE_DATABASE` say where. TEST.NAME is the database's own name: the runner finds it, makes none, and
with `--keepdb` drops none.
"""

import os

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": "127.0.0.1",
        "PORT": os.environ["HEDDLE_PORT"],
        "USER": "ada",
        "NAME": os.environ["HEDDLE_DATABASE"],
        "TEST": {"NAME": os.environ["HEDDLE_DATABASE"]},
    }
}
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions", "shop"]
SECRET_KEY = "test"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
