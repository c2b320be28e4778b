"""The configuration of the Superset that checks Keyspan: its own data lies in the folder that BI_HOME names."""

import os

SECRET_KEY = "checks-only-checks-only-checks-only"
SQLALCHEMY_DATABASE_URI = f"sqlite:///{os.environ['BI_HOME']}/metadata.db"
WTF_CSRF_ENABLED = False
TALISMAN_ENABLED = False
