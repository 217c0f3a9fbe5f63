"""Parameters that every call may have in addition to those of its command (ADR 17), in lower case."""

OF_THE_PROTOCOL = frozenset(
    {"command", "response", "apikey", "signature", "signatureversion", "expires", "sessionkey", "jsessionid", "_"}
)
"""Who calls what, and how it is to be answered; ``_`` keeps caches of browsers and proxies from answering."""

OF_THE_SERVER = frozenset(
    {"ctxuserid", "ctxaccountid", "ctxdetails", "ctxstarteventid", "customjobid", "httpmethod"}
)
"""What CloudStack's server adds to calls itself, and clients that replay its logs send along."""

OF_ANY_LIST = frozenset(
    {"page", "pagesize", "keyword", "listall", "account", "domainid", "isrecursive", "showicon"}
)
"""Clients page through, and widen, whatever they list."""

OF_CLIENTS = frozenset({"projectid", "filter", "listitems"})
"""CloudStack's console sends the project that it shows with every call, CloudMonkey its own ``filter``, Ansible's
inventory ``listItems``."""

GENERAL = OF_THE_PROTOCOL | OF_THE_SERVER | OF_ANY_LIST | OF_CLIENTS
