"""Domains, roles, accounts, users, their API keys and sessions, and projects."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    text,
)

from bulkdeploy.store.tables.schema import (
    created,
    identity,
    metadata,
    name_column,
    public_uuid,
    reference,
    removed,
    small_number,
)

domains = Table(
    "domains",
    metadata,
    identity(),
    public_uuid(),
    name_column(),
    reference("parent_id", "domains.id", nullable=True, index=True),
    Column("path", Text, nullable=False, comment="names from ROOT: ROOT/a/b"),
    Column("lineage", Text, nullable=False, comment="internal ids from ROOT: /1/4/9/"),
    Column("level", Integer, nullable=False),
    Column("network_domain", Text),
    Column("state", Text, nullable=False, server_default="Active"),
    created(),
    removed(),
    Index("ix_domains_lineage", "lineage", postgresql_ops={"lineage": "text_pattern_ops"}),
    Index(
        "uq_domains_live_name",
        "parent_id",
        text("lower(name)"),
        unique=True,
        postgresql_where=text("removed IS NULL"),
    ),
)

roles = Table(
    "roles",
    metadata,
    identity(),
    public_uuid(),
    name_column(),
    Column("role_type", Text, nullable=False),
    Column("description", Text),
    Column("is_default", Boolean, nullable=False, server_default=text("false")),
    Column(
        "is_public", Boolean, nullable=False, server_default=text("true"), comment="false: only root admins see it"
    ),
    Column(
        "project_id", BigInteger, comment="the project whose members can have the role; NULL: a role of accounts"
    ),
    created(),
    removed(),
    Index("ix_roles_project_id", "project_id", postgresql_where=text("project_id IS NOT NULL")),
)

role_rules = Table(
    "role_rules",
    metadata,
    identity(),
    public_uuid(),
    reference("role_id", "roles.id", index=True),
    Column("rule", Text, nullable=False, comment="an API name, * allowed: list*"),
    Column("permission", Text, nullable=False, comment="allow or deny"),
    Column("description", Text),
    Column("sort_order", Integer, nullable=False),
)

accounts = Table(
    "accounts",
    metadata,
    identity(),
    public_uuid(),
    name_column(),
    reference("domain_id", "domains.id", index=True),
    small_number("account_type"),
    reference("role_id", "roles.id"),
    Column("state", Text, nullable=False, server_default="enabled"),
    Column("network_domain", Text),
    created(),
    removed(),
    Index(
        "uq_accounts_live_name",
        "domain_id",
        text("lower(name)"),
        unique=True,
        postgresql_where=text("removed IS NULL"),
    ),
)

users = Table(
    "users",
    metadata,
    identity(),
    public_uuid(),
    Column("username", Text, nullable=False),
    Column("password_hash", Text, comment="argon2id; NULL: may not log in"),
    reference("account_id", "accounts.id", index=True),
    Column("firstname", Text, nullable=False, server_default=""),
    Column("lastname", Text, nullable=False, server_default=""),
    Column("email", Text, nullable=False, server_default=""),
    Column("timezone", Text),
    Column("state", Text, nullable=False, server_default="enabled"),
    Column("failed_logins", Integer, nullable=False, server_default=text("0")),
    Column("is_default", Boolean, nullable=False, server_default=text("false")),
    created(),
    removed(),
    Index("ix_users_username", text("lower(username)")),
)

api_keys = Table(
    "api_keys",
    metadata,
    identity(),
    reference("user_id", "users.id", index=True),
    Column("api_key", Text, nullable=False, unique=True),
    Column("secret_key_encrypted", LargeBinary, nullable=False, comment="Fernet token"),
    created(),
)

sessions = Table(
    "sessions",
    metadata,
    Column("token_hash", LargeBinary, primary_key=True, comment="SHA-256 of the JSESSIONID cookie"),
    Column("session_key_hash", LargeBinary, nullable=False),
    reference("user_id", "users.id", index=True),
    created(),
    Column("last_used", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("expires", DateTime(timezone=True), nullable=False, index=True),
)

api_calls = Table(
    "api_calls",
    metadata,
    Column("account_id", BigInteger, primary_key=True, autoincrement=False),
    Column("interval_began", DateTime(timezone=True), nullable=False),
    Column("calls", Integer, nullable=False, comment="since then"),
    prefixes=["UNLOGGED"],
    postgresql_with={"fillfactor": "50"},
    comment="calls of each account in its present interval; written only while api.throttling.enabled",
)

login_attempts = Table(
    "login_attempts",
    metadata,
    Column(
        "subject",
        Text,
        primary_key=True,
        comment="user <domain id> <name> from <client address>, user <domain id> <name>, or address <client address>",  # noqa: E501 - one text
    ),
    Column("failures", Integer, nullable=False),
    Column("last_attempt", DateTime(timezone=True), nullable=False, index=True),
    prefixes=["UNLOGGED"],
    postgresql_with={"fillfactor": "50"},
    comment="attempts to prove a password that were not the right one, or are being checked",
)

known_logins = Table(
    "known_logins",
    metadata,
    Column("subject", Text, primary_key=True, comment="user <domain id> <name> from <client address>"),
    Column("last_login", DateTime(timezone=True), nullable=False, index=True),
    comment="from which addresses users have logged in",
)

projects = Table(
    "projects",
    metadata,
    identity(),
    public_uuid(),
    name_column(),
    Column("display_text", Text, nullable=False, server_default=""),
    reference("domain_id", "domains.id", index=True),
    reference("account_id", "accounts.id"),
    Column("state", Text, nullable=False, server_default="Active"),
    created(),
    removed(),
)

project_invitations = Table(
    "project_invitations",
    metadata,
    identity(),
    public_uuid(),
    Column("project_id", BigInteger, nullable=False),
    Column("account_id", BigInteger, nullable=False, index=True, comment="the account that is invited"),
    Column("role", Text, nullable=False, comment="Admin or Regular: its role after it has accepted"),
    Column("role_id", BigInteger, comment="the role of the project that the account gets when it accepts"),
    Column("state", Text, nullable=False, server_default="Pending", comment="Pending, Completed or Declined"),
    created(),
    Index("uq_project_invitations_account", "project_id", "account_id", unique=True),
)

project_accounts = Table(
    "project_accounts",
    metadata,
    Column("project_id", BigInteger, primary_key=True),
    Column("account_id", BigInteger, primary_key=True),
    Column("role", Text, nullable=False, server_default="Regular"),
    Column("role_id", BigInteger, comment="a role of the project; its rules restrict members that are Regular"),
    Index("ix_project_accounts_restricted", "account_id", postgresql_where=text("role_id IS NOT NULL")),
)
